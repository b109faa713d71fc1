#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Fingerprint, deadline and ring of operations together cost a 4-byte all-reduce at most 30 instructions outside the
# spin, and no operation reads the clock. Usage: price_test.sh PRICE PRICE_WITHOUT_THEM
set -u
most=30

with=$("$1" count) || exit $?
without=$("$2" count) || exit $?
read -r guarded clocks calls <<<"$with"
read -r bare bare_clocks bare_calls <<<"$without"
echo "with them: $guarded instructions, $clocks clock readings, $calls system calls; without: $bare, $bare_clocks, $bare_calls"
echo "price: $((guarded - bare)) instructions (at most $most)"
# Both builds must be what they say, or the difference means nothing.
[ "$guarded" -gt "$bare" ] && [ "$bare" -gt 50 ] && [ $((guarded - bare)) -le $most ] && [ "$clocks" = 0 ] && [ "$calls" = 0 ]
