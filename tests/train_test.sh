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
