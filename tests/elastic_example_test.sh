#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# In every mode the loss of the centre falls from 1.2; with servers how far depends on how long the others of rank 0 still
# train when it ends, and on how stale they are while other programs have the processors. Usage: elastic_example_test.sh ELASTIC
set -eu
for mode in original async async-momentum hogwild sync1 sync2 sync3; do
    last=$("$1" 3 $mode | awk '/^loss of new points:/ { print $5 }')
    echo "$mode: loss of new points $last"
    case $mode in async* | hogwild) most=1 ;; *) most=0.6 ;; esac
    awk -v last="$last" -v most=$most 'BEGIN { exit !(last != "" && last < most) }'
done
