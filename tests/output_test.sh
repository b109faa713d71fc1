#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What the programs print is written, or they say so. Usage: output_test.sh PROGRAM...
set -u
room=$(mktemp -d) || exit 1
trap 'rm -rf "$room"' EXIT
unset $(env | sed -n 's/^\(PLAIT_[A-Z_]*\)=.*/\1/p')
failed=0

commands_of() { # PROGRAM: its commands that print much, and little
    printf '%s\n' --help --version
    case $1 in
    plait-info) printf '%s\n' "" --config "--explain allreduce 1M" ;;
    plait-plan) printf '%s\n' list "show ring --ranks 4" "show ring --ranks 64" "check ring" ;;
    plait-hosts) unshare -Urn true 2>/dev/null && echo "1 --ranks 2 -- echo hello" ;;
    plait-perf) printf '%s\n' "--ranks 2 -b 64 -e 64 -n 2 -w 1 --guard off" ;;
    plait-train) printf '%s\n' "make-data $room/images --classes 2 --train-images 4 --val-images 2 --pixels 16" \
        "$room/images --dry-run --pixels 16 --batch 4 --threads 1" ;;
    esac
}
# ends STATUS DESTINATION PROGRAM COMMAND: with output to there
ends() {
    local status=$1 to=$2 program=$3 command=$4
    (exec $program $command >"$to") 2>"$room/err" </dev/null
    local got=$?
    [ $got -eq "$status" ] && return
    echo "$(basename "$program") $command >$to: exit status $got (expected $status); $(head -3 "$room/err")"
    failed=1
}

has_json() {
    ! "$program" -J "$room/any" -b 64 -e 64 -n 1 -w 0 --guard off 2>&1 </dev/null | grep -q 'built without JSON'
}
run_of() { # PROGRAM HOW: commands that have files open, or start ranks; nothing is written to their files but what belongs there
    case $1 in
    plait-perf)
        for kind in processes threads; do
            has_json && echo "--ranks 2 --as $kind -b 64 -e 64 -n 2 -w 1 --guard off -J $room/$2.$kind.json" ||
                echo "--ranks 2 --as $kind -b 64 -e 64 -n 2 -w 1 --guard off"
        done
        ;;
    plait-train) echo "$room/images --pixels 16 --batch 4 --threads 1 --data-threads 1 --epochs 2 --ranks 2 --run $room/$2" ;;
    esac
}
# Without the standard streams of HOW (0, 01, ...), it ends as it should.
closed() {
    local how=$1 program=$2 command=$3 status=0
    [[ $how == *1* ]] && status=1
    (
        exec </dev/null >"$room/out" 2>"$room/err"
        [[ $how == *0* ]] && exec <&-
        [[ $how == *1* ]] && exec >&-
        [[ $how == *2* ]] && exec 2>&-
        exec $program $command
    )
    local got=$?
    [ $got -eq $status ] || complain "$command, closed: $how" "exit status $got (expected $status); $(head -3 "$room/err")"
    [[ $how == *2* ]] || [ $status -eq 0 ] || grep -q "^$name: standard output cannot be written: " "$room/err" ||
        complain "$command, closed: $how" "it does not say that output is lost: $(head -3 "$room/err")"
}
complain() {
    echo "$name $1: $2"
    failed=1
}
whole() { # HOW: the files of run_of
    case $name in
    plait-perf)
        for kind in processes threads; do
            ! has_json || [[ $(cat "$room/$1.$kind.json") == {*} ]] ||
                complain "closed: $1" "its file: $(head -c 300 "$room/$1.$kind.json")"
        done
        ;;
    plait-train)
        [ -s "$room/$1/log.jsonl" ] && ! grep -qv '^{".*}$' "$room/$1/log.jsonl" ||
            complain "closed: $1" "log.jsonl: $(grep -v '^{".*}$' "$room/$1/log.jsonl" | head -3)"
        "$program" "$room/images" --resume "$room/$1" --ranks 2 >"$room/out" 2>&1 && ! grep -q 'skipped' "$room/out" ||
            complain "closed: $1" "its checkpoint: $(head -3 "$room/out")"
        (exec <&- >&- 2>&- && exec "$program" plot "$room/$1" --plot "$room/plot.svg")
        [ "$(tail -n 1 "$room/plot.svg")" = "</svg>" ] || complain "plot, closed: 012" "$(head -c 300 "$room/plot.svg")"
        ;;
    esac
}

for program in "$@"; do
    name=$(basename "$program") printing=
    while read -r command; do
        ends 0 "$room/out" "$program" "$command"
        [ -s "$room/out" ] || continue
        printing+=$command$'\n'
        ends 1 /dev/full "$program" "$command"
        grep -q "^$name: standard output cannot be written: " "$room/err" || {
            echo "$name $command: it does not say that output is lost: $(cat "$room/err")"
            failed=1
        }
        # A reader that has read enough is no error.
        (
            trap '' PIPE
            "$program" $command 2>"$room/err" </dev/null
            echo $? >"$room/status"
        ) | true
        [ "$(cat "$room/status")" = 0 ] || {
            echo "$name $command | true: exit status $(cat "$room/status"): $(head -3 "$room/err")"
            failed=1
        }
    done < <(commands_of "$name")

    for how in 0 1 2 01 02 12 012; do
        while read -r command; do
            closed $how "$program" "$command"
        done < <(printf '%s' "$printing" && run_of "$name" $how)
        whole $how
    done
done
[ $failed -eq 0 ] && echo passed
exit $failed
