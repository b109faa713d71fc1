#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# How runs of plait-train end: exit status, words, what is saved. Usage: train_endings_test.sh PLAIT_TRAIN
. "$(dirname "$0")/train_run.sh"
start() { # NAME OPTIONS: until it has taken some steps; $child
    local name=$data/$1
    shift
    "$train" "$data/images" --pixels 16 --batch 16 --threads 1 --data-threads 1 --epochs 10000 --log-every 1 --run "$name" \
        "$@" >"$name.out" 2>&1 &
    child=$!
    until grep -q '"step"' "$name/log.jsonl" 2>/dev/null || ! kill -0 $child; do sleep 0.1; done
}
ended() { # NAME STATUS WORDS
    wait $child
    local status=$?
    [ $status -eq "$2" ] || fail "$1: status $status: $(tail -3 "$data/$1.out")"
    grep -q -e "$3" "$data/$1.out" "$data/$1/log.jsonl" || fail "$1: '$3' is not what it says: $(tail -3 "$data/$1.out")"
}
rank() { # K: the process of a rank
    pgrep -P $child | sed -n "$(($1 + 1))p"
}

# Workers of a server do not step together; a signal to one of them stops all, between checkpoints that all take part in.
for try in 1 2 3 4; do
    start async$try --elastic async --ranks 3 --save-every 2
    kill -TERM "$(rank $((try % 2)))"
    ended async$try 143 '"why":"asked to stop"'
done
echo passed
