#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Data-parallel training from Python: a small network learns on which of three spirals a point lies (train.c in NumPy).

    pip install .
    python3 examples/train.py 4 [reproducible]

Gradients travel as bfloat16 while the next ones are computed. With "reproducible" those of micro-batches are added in one
tree, which goes on over the ranks, and travel as float32: 1, 2, 4 and 8 ranks give equal bits.
"""
import multiprocessing
import sys

import numpy

import plait

SIZES, MICRO, POINTS, STEPS = (3, 64, 64, 3), 8, 32, 400
LAYERS = len(SIZES) - 1


def batch(number):
    """Points that are the same on all ranks: on one of three arms, a little beside it."""
    random = numpy.random.default_rng(number)
    label, far = random.integers(3, size=POINTS), random.uniform(size=POINTS)
    angle = 4 * far + 2.0944 * label
    x = numpy.stack([far * numpy.cos(angle), far * numpy.sin(angle), numpy.full(POINTS, 50)], axis=1)
    return ((x + random.normal(0, 0.01, x.shape)) * (1, 1, 0.02)).astype(numpy.float32), label


def forward(w, x, label):
    """The values of every layer, the loss, and its gradient by the last layer."""
    values = [x]
    for layer in range(LAYERS):
        values.append(values[-1] @ w[layer] if layer == LAYERS - 1 else numpy.maximum(values[-1] @ w[layer], 0))
    p = numpy.exp(values[-1] - values[-1].max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    loss = -numpy.log(p[range(POINTS), label]).mean()
    p[range(POINTS), label] -= 1
    return values, loss, p


def run_rank(nrank, rank, unique_id, reproducible):
    """One process: meet the others, then learn."""
    random = numpy.random.default_rng(1)  # the same weights everywhere
    w = [random.normal(0, SIZES[i]**-0.5, SIZES[i:i + 2]).astype(numpy.float32) for i in range(LAYERS)]
    order = range(LAYERS - 1, -1, -1)  # in which gradients appear
    nmicro, scale = MICRO // nrank, plait.LossScale()
    with plait.Comm.create(nrank, rank, unique_id) as comm, \
            comm.fusion({f'w{i}': (w[i].shape, 'float32') for i in order}, layout=0, reproducible=reproducible,
                        payload=None if reproducible else 'bfloat16') as fusion:
        optim = plait.Optim([plait.Part(w[i], fusion[f'w{i}']) for i in order], eta=0.01)
        for step in range(STEPS):
            found = [[None] * nmicro for _ in w]
            for m in range(nmicro):
                values, loss, d = forward(w, *batch(step * MICRO + rank * nmicro + m))
                d = d * numpy.float32(scale.scale)
                for i in order:
                    found[i][m] = values[i].T @ d
                    d = (d @ w[i].T) * (values[i] > 0)
                    if m == nmicro - 1:
                        while len(found[i]) > 1:
                            found[i] = [a + b for a, b in zip(found[i][::2], found[i][1::2])]
                        fusion[f'w{i}'][...] = found[i][0]
                        fusion.ready(f'w{i}')
                if rank == 0 and m == 0 and step % 100 == 0:
                    print(f'step {step:3}: loss {loss:.4f}')
            fusion.wait_all()
            scale.update(optim.step(lr=0.2, factor=1 / (scale.scale * MICRO * POINTS)).finite)
        if rank == 0:
            loss = forward(w, *batch(MICRO * STEPS))[1]
            print(f'loss of new points: {loss!r}')
            assert loss < 0.1


def main():
    nrank, reproducible = int(sys.argv[1]) if len(sys.argv) > 1 else 2, sys.argv[2:] == ['reproducible']
    if nrank not in (1, 2, 4, 8):
        sys.exit(f'{nrank} ranks are not possible; use 1, 2, 4 or 8')
    unique_id, fork = plait.unique_id(), multiprocessing.get_context('fork')
    ranks = [fork.Process(target=run_rank, args=(nrank, r, unique_id, reproducible)) for r in range(nrank)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    sys.exit(any(process.exitcode for process in ranks))


if __name__ == '__main__':
    main()
