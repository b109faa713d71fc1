#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Write a plan file: an all-reduce for a cluster with one slow host.

In a ring every host sends and receives almost twice the vector. Here the slow host sends its vector once and receives
the result once: the others add it to the sums of a ring of their own.

    $ slow_host.py --hosts 8 --each 4 --slow 0 slow-host.plan
    $ plait-plan simulate --plans slow-host.plan --machine minsky-32 --ranks 32 --what-if 'host 0=/4' --bytes 64M
    $ PLAIT_PLANS=slow-host.plan PLAIT_ALGO=allreduce:slow-host torchrun --nproc-per-node 4 ...
"""
import argparse
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'python', 'plait'))
from plans import IN, OUT, TMP, Plans  # noqa: E402 pylint: disable=wrong-import-position


class Writer:
    """The vector has a part for each rank of a host, of as many blocks as there are fast hosts."""

    def __init__(self, hosts, each, slow):
        self.each, self.slow = each, slow
        self.fast = [h for h in range(hosts) if h != slow]
        self.m = len(self.fast)
        self.plans = Plans('allreduce', ranks=hosts * each, blocks=each * self.m)
        for rank in range(hosts * each):
            self.write(self.plans.rank(rank), *divmod(rank, each))

    def write(self, r, host, me):
        """Reduce-scatter in the host, all-reduce of each part among hosts, all-gather in the host."""
        self.scatter_in_host(r, host, me)
        if host == self.slow:
            for j, other in enumerate(self.fast):
                r.send(other * self.each + me, OUT[me * self.m + j])
            for j, other in enumerate(self.fast):
                r.recv(other * self.each + me, OUT[me * self.m + j])
        else:
            self.reduce_among_fast(r, self.fast.index(host), me)
        self.gather_in_host(r, host, me)

    def part(self, buffer, k):
        return buffer[k * self.m:(k + 1) * self.m]

    def others(self, host, me):
        return [(k, host * self.each + k) for k in range(self.each) if k != me]

    def scatter_in_host(self, r, host, me):
        own, to, sums, first = self.part(IN, me), self.part(OUT, me), self.part(TMP, 0), me * self.m
        for k, peer in self.others(host, me):
            r.send(peer, self.part(IN, k))
        for i, (_, peer) in enumerate(self.others(host, me)):
            r.recv(peer, self.part(TMP, i), block=first)
        terms = [self.part(TMP, i) for i in range(self.each - 1)]
        terms.insert(me, own)  # in the order of the ranks
        if len(terms) == 1:
            r.copy(to, own)
        for i in range(1, len(terms)):  # in place, `to` is the own term: write it last
            r.reduce(to if i == len(terms) - 1 else sums, terms[0] if i == 1 else sums, terms[i], block=first)

    def reduce_among_fast(self, r, i, me):
        """A ring: block j ends at its owner, number j. The owner adds the slow host's and sends it the sum."""
        m, first, spare = self.m, me * self.m, (self.each - 1) * self.m
        ranks = [h * self.each + me for h in self.fast]
        after, before, slow = ranks[(i + 1) % m], ranks[i - 1], self.slow * self.each + me
        for step in range(1, m):
            sent, got = (i - step) % m, (i - step - 1) % m
            r.send(after, OUT[first + sent])
            r.recv(before, TMP[spare + got], block=first + got)
            r.reduce(OUT[first + got], TMP[spare + got], OUT[first + got])
        r.recv(slow, TMP[spare + m], block=first + i)
        r.reduce(OUT[first + i], OUT[first + i], TMP[spare + m])
        r.send(slow, OUT[first + i])
        for step in range(m - 1):
            r.send(after, OUT[first + (i - step) % m])
            r.recv(before, OUT[first + (i - step - 1) % m])

    def gather_in_host(self, r, host, me):
        for _, peer in self.others(host, me):
            r.send(peer, self.part(OUT, me))
        for k, peer in self.others(host, me):
            r.recv(peer, self.part(OUT, k))


options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
options.add_argument('--hosts', type=int, default=8)
options.add_argument('--each', type=int, default=4, help='ranks of a host')
options.add_argument('--slow', type=int, default=0, help='the slow host')
options.add_argument('file')
given = options.parse_args()
Writer(given.hosts, given.each, given.slow).plans.write(given.file)
