# SPDX-License-Identifier: BSD-3-Clause
# Sourced by tests of plait-train as a program, with its path as their argument: resnet20 on tiny drawn images.
set -u
train=$1
data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT
export OMP_NUM_THREADS=1
fail() {
    echo "FAILED: $*" >&2
    exit 1
}
run() { # NAME OPTIONS: quietly; its log is NAME/log.jsonl
    local name=$data/$1
    shift
    timeout "${LIMIT-300}" "$train" "$data/images" --pixels 16 --batch 16 --micro 4 --threads 1 --data-threads 1 --evaluate-every 0 --epochs 13 \
        "$@" >"$name.out" 2>&1
}
weights() {
    sed -n 's/.*"weights":"\([0-9a-f]*\)".*/\1/p' "$data/$1/log.jsonl" | tail -1
}
complains() { # STATUS WORDS OPTIONS
    local status=$1 words=$2
    shift 2
    "$train" "$@" >"$data/out" 2>&1
    [ $? -eq "$status" ] || fail "exit status of: $*"
    [ "$status" -ne 2 ] || [ "$(wc -l <"$data/out")" -eq 1 ] || fail "a mistake is not one line: $(cat "$data/out")"
    grep -q -e "$words" "$data/out" || fail "'$words' is not what it says to: $* ($(head -1 "$data/out"))"
}

"$train" make-data "$data/images" --train-images 64 --val-images 21 --pixels 24 >/dev/null || fail "make-data"
