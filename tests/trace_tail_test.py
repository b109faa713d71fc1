#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tools/trace_tail.py on timelines that are short enough to be worked out by hand. Usage: trace_tail_test.py FOLDER-OF-TOOLS"""
import json
import os
import sys
import tempfile

sys.path.insert(0, sys.argv[1])
import trace_tail

ROWS = ("ready", "pack", "transfer", "unpack", "wait", "compute")
MEGABYTE_EACH_MS = "8gbit"  # 1 ms for a million bytes


def bucket(rank, kind, number, begin, end):
    """Milliseconds. A million bytes in bucket 0, the tensors a and b; two million in bucket 1, c."""
    return {"ph": "X", "pid": rank, "tid": ROWS.index(kind), "ts": 1e3 * begin, "dur": 1e3 * (end - begin), "name": f"bucket {number}",
            "args": {"tensors": (2, 1)[number], "bytes": (1e6, 2e6)[number], "type": "bfloat16", "algorithm": "ring"}}


def rank_of(rank, ready, moved):
    """A step: when a, b and c were ready; from when to when each bucket moved."""
    names = [{"ph": "M", "pid": rank, "tid": k, "name": "thread_name", "args": {"name": row}} for k, row in enumerate(ROWS)]
    points = [{"ph": "i", "pid": rank, "tid": 0, "ts": 1e3 * t, "dur": 0, "name": "abc"[k % 3], "args": {"bucket": (0, 0, 1)[k % 3]}}
              for k, t in enumerate(ready)]
    points += [{"ph": "X", "pid": rank, "tid": 5, "ts": 1e3 * (t - 1), "dur": 1e3, "name": "until the first gradient"} for t in ready[::3]]
    return names + points + [bucket(rank, "transfer", k % 2, *t) for k, t in enumerate(moved)]


def tails(*ranks, skip=0):
    """Exposed and tail in milliseconds, of all ranks and of the last."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": [event for events in ranks for event in events]}, file)
        found = trace_tail.tails(trace_tail.Timeline(path), trace_tail.bytes_per_second(MEGABYTE_EACH_MS), skip)
    return tuple(round(1e3 * found[name], 6) for name in ("exposed", "tail", "last_exposed", "last_tail"))


def the_last_bucket_is_exposed_where_the_others_are_hidden():
    # bucket 0 is across at 2 + 1 ms, bucket 1 at 10 + 2; it was at 13
    rank = ([1, 2, 10], [(2, 4), (10, 13)])
    assert tails(rank_of(0, *rank), rank_of(1, *rank)) == (3, 2, 3, 2)


def buckets_queue_on_the_link():
    # bucket 0 is across at 10, bucket 1 at 12, 2.5 after the last gradient
    rank = ([1, 9, 9.5], [(9, 11), (11, 14)])
    assert tails(rank_of(0, *rank), rank_of(1, *rank)) == (4.5, 2.5, 4.5, 2.5)


def a_bucket_waits_for_the_slowest_rank():
    # across at 14: 4 after rank 0's last gradient, 2 after rank 1's, who had it at 14.5
    early, late = [1, 2, 10], [1, 2, 12]
    assert tails(rank_of(0, early, [(2, 4), (10, 14)]), rank_of(1, late, [(2, 4), (12, 14.5)])) == (3.25, 3, 2.5, 2)


def all_reduce_moves_more_among_more_ranks():
    # 2 (P - 1) / P = 1.5 times the bytes
    rank = ([1, 2, 10], [(2, 4), (10, 13)])
    assert tails(*(rank_of(k, *rank) for k in range(4))) == (3, 3, 3, 3)


def each_step_has_its_own_gradients():
    # the second step as the first, 100 ms later
    ready, moved = [1, 2, 10], [(2, 4), (10, 13)]
    ready, moved = ready + [t + 100 for t in ready], moved + [(a + 100, b + 100) for a, b in moved]
    assert tails(rank_of(0, ready, moved), rank_of(1, ready, moved)) == (3, 2, 3, 2)
    assert tails(rank_of(0, ready, moved), rank_of(1, ready, moved), skip=1) == (3, 2, 3, 2)


the_last_bucket_is_exposed_where_the_others_are_hidden()
buckets_queue_on_the_link()
a_bucket_waits_for_the_slowest_rank()
all_reduce_moves_more_among_more_ranks()
each_step_has_its_own_gradients()
