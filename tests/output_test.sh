#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What the programs print is written, or they say so. Usage: output_test.sh PROGRAM...
set -u
room=$(mktemp -d) || exit 1
trap 'rm -rf "$room"' EXIT
unset $(env | sed -n 's/^\(PLAIT_[A-Z_]*\)=.*/\1/p')
failed=0

commands_of() { # PROGRAM: its commands that print much, and little
    echo --help
    case $1 in
    plait-info) printf '%s\n' "" --version --config "--explain allreduce 1M" ;;
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

for program in "$@"; do
    name=$(basename "$program")
    while read -r command; do
        ends 0 "$room/out" "$program" "$command"
        [ -s "$room/out" ] || continue
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
done
[ $failed -eq 0 ] && echo passed
exit $failed
