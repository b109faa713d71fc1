#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The loss falls, and with "reproducible" it has the same bits whatever the number of ranks. Usage: train_test.sh TRAIN
set -eu
first=$("$1" 2 | awk '/^step   0:/ { print $4 }')
last=$("$1" 2 | awk '/^loss of new points:/ { print $5 }')
echo "bfloat16, 2 ranks: loss $first, in the end $last"
awk -v first="$first" -v last="$last" 'BEGIN { exit !(first > 1 && last < 0.1) }'
one=$("$1" 1 reproducible | tail -1)
for n in 2 4; do
    other=$("$1" $n reproducible | tail -1)
    echo "$n ranks: $other"
    [ "$other" = "$one" ]
done
# The program fails with any of its ranks.
"$1" 4 >/dev/null 2>&1 &
program=$!
until child=$(grep -ls "^PPid:[[:space:]]$program$" /proc/[0-9]*/status | head -1 | cut -d/ -f3) && [ -n "$child" ]; do sleep 0.01; done
kill -9 "$child"
if wait $program; then
    echo "FAIL: exit status 0 where a rank was killed"
    exit 1
fi
status=0
"$1" 3 2>/dev/null || status=$?
[ $status -eq 2 ]
