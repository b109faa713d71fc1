#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Fingerprint, deadline and ring of operations together cost a 4-byte all-reduce at most 30 instructions outside the
# spin, and no operation reads the clock. Starting a persistent operation takes at most half of the instructions.
# Usage: price_test.sh PRICE PRICE_WITHOUT_THEM
set -u
most=30

with=$("$1" count) || exit $?
without=$("$2" count) || exit $?
read -r guarded clocks calls <<<"$with"
read -r bare bare_clocks bare_calls <<<"$without"
echo "with them: $guarded instructions, $clocks clock readings, $calls system calls; without: $bare, $bare_clocks, $bare_calls"
echo "price: $((guarded - bare)) instructions (at most $most)"
start=$("$1" count start) || exit $?
again=$("$1" count again) || exit $?
echo "start of a persistent one: ${start%% *} instructions (at most half of $guarded); start and end in one: ${again%% *}"
# Both builds must be what they say, or the difference means nothing.
[ "$guarded" -gt "$bare" ] && [ "$bare" -gt 50 ] && [ $((guarded - bare)) -le $most ] && [ "$clocks" = 0 ] && [ "$calls" = 0 ] &&
    [ "${start%% *}" -gt 50 ] && [ $((2 * ${start%% *})) -le "$guarded" ] && [ "${again%% *}" -lt "$guarded" ]
