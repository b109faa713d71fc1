#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Data-parallel gradients from Python: processes fit one line together, each with points of its own.

    pip install . && python3 examples/allreduce.py 4
"""
import multiprocessing
import sys

import numpy

import plait

STEPS, RATE, POINTS = 200, 0.5, 10000
SLOPE, OFFSET = 3.0, -1.0


def run_rank(nrank, rank, unique_id):
    """One process: meet the others, then learn."""
    random = numpy.random.default_rng(rank)
    x = random.uniform(-1, 1, POINTS)
    y = SLOPE * x + OFFSET + random.normal(0, 0.1, POINTS)

    # Who has the same id is in the same comm. An exception inside is told to the others.
    with plait.Comm.create(nrank, rank, unique_id) as comm:
        # Rank 0 says where to begin.
        weights = random.normal(size=2)
        comm.broadcast(weights, root=0)

        # Library memory is read in place by the other processes. Any contiguous array works, with one more copy.
        gradient = plait.zeros(2)
        for _ in range(STEPS):
            error = weights[0] * x + weights[1] - y
            gradient[:] = (error * x).mean(), error.mean()
            comm.allreduce(gradient, op='avg')  # in place: the average of all ranks'
            weights -= RATE * gradient

        # All ranks have got the same bits at every step, so their weights are equal.
        everyone = comm.allgather(weights, out=numpy.empty((nrank, 2)))
        assert (everyone == weights).all()
        assert numpy.allclose(weights, (SLOPE, OFFSET), atol=0.05), weights
        comm.barrier()
        if rank == 0:
            print(f'{nrank} ranks: y = {weights[0]:.3f} x {weights[1]:+.3f}, expected y = {SLOPE} x {OFFSET:+}')


def main():
    nrank = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    # One process makes the id; the others get its 128 bytes by any means.
    unique_id = plait.unique_id()
    ranks = [multiprocessing.Process(target=run_rank, args=(nrank, rank, unique_id)) for rank in range(nrank)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    sys.exit(any(rank.exitcode for rank in ranks))


if __name__ == '__main__':
    main()
