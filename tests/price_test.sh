#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Fingerprint, deadline and ring of operations together cost a 4-byte all-reduce at most 30 instructions outside the
# spin, and two messages at most 200; none reads the clock. The all-reduce takes at most 720 in all, a persistent one
# 620. The two messages take at most 2000 in all, which they do only as their caller gives them their first turns
# (lib/p2p/exchange.c). Starting a persistent operation and waiting for it takes fewer instructions than a call. Blocks
# of different sizes take at most 1200: collective and root of the last operation are known again. An all-reduce of 256
# bytes prefetches the six cache lines that the next one writes first: its record, the word and four of data. One of
# 4096 bytes prefetches its record and 64 lines of data, not the word, which others poll by then: with it, the
# operation takes a third longer. A turn of the spin takes at most 60: each one delays the end of a wait.
# Usage: price_test.sh PRICE PRICE_WITHOUT_THEM
set -u
most=30
most_of_call=720
most_of_again=620
most_messages=200
most_of_messages=2000
most_of_parts=1200
lines_of_block=6
lines_of_large=65
most_of_poll=60

with=$("$1" count) || exit $?
without=$("$2" count) || exit $?
read -r guarded clocks calls _ <<<"$with"
read -r bare bare_clocks bare_calls _ <<<"$without"
echo "with them: $guarded instructions, $clocks clock readings, $calls system calls; without: $bare, $bare_clocks, $bare_calls"
echo "price: $((guarded - bare)) instructions (at most $most)"
again=$("$1" count again) || exit $?
echo "start and end of a persistent one: ${again%% *} instructions (fewer than $guarded, at most $most_of_again)"
messages=$("$1" count messages) || exit $?
bare_messages=$("$2" count messages) || exit $?
read -r messages message_clocks _ <<<"$messages"
price_messages=$((messages - ${bare_messages%% *}))
echo "price of two messages: $price_messages instructions of $messages (at most $most_messages of $most_of_messages), $message_clocks clock readings"
parts=$("$1" count parts) || exit $?
read -r parts part_clocks part_calls _ <<<"$parts"
echo "an all-to-all-v: $parts instructions (at most $most_of_parts), $part_clocks clock readings, $part_calls system calls"
block=$("$1" count block) || exit $?
large=$("$1" count large) || exit $?
poll=$("$1" count poll) || exit $?
echo "256 bytes: ${block##* } cache lines prefetched ($lines_of_block wanted); 4096: ${large##* } ($lines_of_large); a turn of the spin: $poll instructions (at most $most_of_poll)"
# Both builds must be what they say, or the difference means nothing.
[ "$guarded" -gt "$bare" ] && [ "$bare" -gt 50 ] && [ $((guarded - bare)) -le $most ] && [ "$guarded" -le $most_of_call ] && [ "$clocks" = 0 ] && [ "$calls" = 0 ] &&
    [ $price_messages -gt 0 ] && [ $price_messages -le $most_messages ] &&
    [ "$parts" -gt "$guarded" ] && [ "$parts" -le $most_of_parts ] && [ "$part_clocks" = 0 ] && [ "$part_calls" = 0 ] &&
    [ "$messages" -le $most_of_messages ] && [ "$message_clocks" = 0 ] &&
    [ "${block##* }" = $lines_of_block ] && [ "${large##* }" = $lines_of_large ] && [ "$poll" -gt 5 ] && [ "$poll" -le $most_of_poll ] &&
    [ "${again%% *}" -gt 50 ] && [ "${again%% *}" -lt "$guarded" ] && [ "${again%% *}" -le $most_of_again ]
