#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Elastic averaging from Python: each rank trains its own network, pulled together by a centre (elastic.c in NumPy).

    pip install . && python3 examples/elastic.py 4 sync3

It learns on which of three spirals a point lies. In the modes with servers one more process holds the centre.
"""
import multiprocessing
import sys

import numpy

import plait

SIZES, POINTS, STEPS = (3, 64, 64, 3), 32, 800
SHAPES = [SIZES[i:i + 2] for i in range(3)]
ENDS = numpy.cumsum([0] + [a * b for a, b in SHAPES])


def layers(flat):
    """The weights of each layer: views of one array."""
    return [flat[ENDS[i]:ENDS[i + 1]].reshape(shape) for i, shape in enumerate(SHAPES)]


def batch(number):
    """On one of three arms, a little beside it."""
    random = numpy.random.default_rng(number)
    label, far = random.integers(3, size=POINTS), random.uniform(size=POINTS)
    angle = 4 * far + 2.0944 * label
    x = numpy.stack([far * numpy.cos(angle), far * numpy.sin(angle), numpy.full(POINTS, 50)], axis=1)
    return ((x + random.normal(0, 0.01, x.shape)) * (1, 1, 0.02)).astype(numpy.float32), label


def forward(w, x, label):
    """The values of every layer, the loss, and its gradient by the last layer."""
    values = [x, *(None for _ in w)]
    for i, layer in enumerate(w):
        values[i + 1] = values[i] @ layer if i == len(w) - 1 else numpy.maximum(values[i] @ layer, 0)
    p = numpy.exp(values[-1] - values[-1].max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    loss = -numpy.log(p[range(POINTS), label]).mean()
    p[range(POINTS), label] -= 1
    return values, loss, p / POINTS


def backward(w, g, values, d):
    """The gradients of all layers, into g."""
    for i in range(len(w) - 1, -1, -1):
        g[i][...] = values[i].T @ d
        d = (d @ w[i].T) * (values[i] > 0)


def train(elastic, flat, nworker, rank):
    """The exchange goes on during the forward and backward pass."""
    gradient = numpy.empty_like(flat)
    w, g = layers(flat), layers(gradient)
    for step in range(STEPS):
        elastic.start()
        values, loss, d = forward(w, *batch(step * nworker + rank))
        backward(w, g, values, d)
        elastic.finish()
        elastic.step(gradient)
        if rank == 0 and step % 100 == 0:
            print(f'step {step:4}: loss {loss:.4f}')
    elastic.centre(flat)
    if rank == 0:
        loss = forward(w, *batch(STEPS * nworker))[1]
        print(f'loss of new points: {loss!r}')
        assert loss < 0.6


def run_rank(nworker, nserver, rank, unique_id, mode):
    """One process: meet the others, then learn, or serve."""
    with plait.Comm.create(nworker + nserver, rank, unique_id) as comm:
        random, flat = numpy.random.default_rng(1), plait.zeros(ENDS[-1], numpy.float32)
        for w, size in zip(layers(flat), SIZES):
            w[...] = random.normal(0, size**-0.5, w.shape)
        with comm.elastic(flat, mode=mode, servers=nserver, lr=0.02 if mode == 'async-momentum' else 0.2) as elastic:
            if rank < nworker:
                train(elastic, flat, nworker, rank)
            else:
                elastic.serve()


def main():
    nworker, mode = int(sys.argv[1]) if len(sys.argv) > 1 else 2, sys.argv[2] if len(sys.argv) > 2 else 'sync3'
    nserver = 0 if mode.startswith('sync') else 1
    unique_id, fork = plait.unique_id(), multiprocessing.get_context('fork')
    ranks = [fork.Process(target=run_rank, args=(nworker, nserver, r, unique_id, mode))
             for r in range(nworker + nserver)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    sys.exit(any(process.exitcode for process in ranks))


if __name__ == '__main__':
    main()
