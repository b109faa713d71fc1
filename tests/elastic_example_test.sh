#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The loss of the centre falls from 1.2; with servers how far depends on how long the others of rank 0 still
# train when it ends, and on how stale they are while other programs have the processors: one of three runs must do it.
# Usage: elastic_example_test.sh ELASTIC
set -eu
modes="original async-momentum sync1 sync2 sync3" # elastic_test.c finds a minimum in each
[ "${PLAIT_TEST_TIER-}" = full ] && modes="$modes async hogwild"
for mode in $modes; do
    case $mode in async* | hogwild) most=1 runs=3 ;; *) most=0.6 runs=1 ;; esac
    for ((run = 1; ; run++)); do
        last=$("$1" 3 $mode | awk '/^loss of new points:/ { print $5 }')
        echo "$mode: loss of new points $last"
        awk -v last="$last" -v most=$most 'BEGIN { exit !(last != "" && last < most) }' && break
        [ $run -lt $runs ]
    done
done
