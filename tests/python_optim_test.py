#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The Python package: the optimiser's step, loss scales and schedules."""
import numpy

import plait
import sentences
from python_ranks import NRANK, both, wrong


def arrays(n=777, seed=1):
    r = numpy.random.default_rng(seed)
    return r.standard_normal(n).astype(numpy.float32), r.standard_normal(n).astype(numpy.float16)


def steps_follow_the_formula_of_lars_and_write_copies_and_momentum():
    w, g = arrays()
    start, copy = w.astype(float), numpy.empty(w.size, numpy.float16)
    optim = plait.Optim([plait.Part(w, g, copy=copy)], decay=0.01, eta=0.1)
    finite, norm = optim.step(0.5, factor=0.25)
    d = g.astype(float) / 4
    trust = 0.1 * numpy.linalg.norm(start) / (numpy.linalg.norm(d) + 0.01 * numpy.linalg.norm(start))
    v = 0.5 * trust * (d + 0.01 * start)
    assert finite and abs(norm - numpy.linalg.norm(d)) < 1e-9
    assert abs(w - (start - v)).max() < 1e-6 and abs(optim.momentum(0) - v).max() < 1e-7
    assert (copy == w.astype(numpy.float16)).all()


def a_nan_skips_the_step_and_halves_the_loss_scale():
    w, g = arrays()
    scale, before = plait.LossScale(), w.copy()
    g[5] = numpy.nan
    step = plait.Optim([plait.Part(w, g)]).step(0.5)
    scale.update(step.finite)
    assert not step.finite and (w == before).all() and scale.scale == 32768


def an_optimiser_with_a_scale_divides_by_it_and_updates_it():
    w, g = arrays()
    scaled, scale = w.copy(), plait.LossScale(8, interval=1)
    optim, other = plait.Optim([plait.Part(scaled, g)], scale=scale), plait.Optim([plait.Part(w, g)])
    assert optim.step(0.5) == other.step(0.5, factor=1 / 8) and (scaled == w).all() and scale.scale == 16
    g[5] = numpy.inf
    assert not optim.step(0.5).finite and (scaled == w).all() and scale.scale == 8 and scale.skipped == 1
    wrong(plait.ArgError, 'scale: growth is 0.5', lambda: plait.Optim([plait.Part(w, g)], scale=plait.LossScale(growth=0.5)))


def schedules_are_functions_of_the_step():
    s = plait.Schedule(13, warmup=540, rule='polynomial', steps=780, power=2.2, end=0.0025)
    assert s(270) == 6.5 and s(540) == 13 and abs(s(2000) - 0.0325) < 1e-15
    s = plait.Schedule(8, rule='steps', milestones=[30, 60], gamma=0.5)
    assert [s(0), s(30), s(100)] == [8, 4, 2]


def what_is_wrong_is_named():
    w, g = arrays()
    wrong(TypeError, r"parts\[0\] is 'w', of type str; it must be a plait.Part", lambda: plait.Optim({'w': (w, g)}))
    wrong(plait.ArgError, 'momentum is 2', lambda: plait.Optim([plait.Part(w, g)], momentum=2))
    wrong(plait.ArgError, "method is 'adam'", lambda: plait.Optim([plait.Part(w, g)], method='adam'))
    wrong(plait.ArgError, 'gradient has 5 elements, master 777', lambda: plait.Part(w, g[:5]))
    wrong(plait.ArgError, 'float16; it must be float32', lambda: plait.Part(g, g))
    wrong(plait.ArgError, 'step is -1', lambda: plait.Schedule(1)(-1))
    wrong(plait.ArgError, 'there are 1', lambda: plait.Optim([plait.Part(w, g)]).momentum(1))


def shards_get_the_weights_of_the_whole():
    def body(rank, uid):
        w, g = arrays()
        whole, _ = arrays()
        plait.Optim([plait.Part(whole, g)]).step(1.0)
        mine = slice(w.size * rank // NRANK, w.size * (rank + 1) // NRANK)
        with plait.Comm.create(NRANK, rank, uid) as comm:
            optim = plait.Optim([plait.Part(w[mine], g[mine], tensor=0)], comm=comm, ntensor=1)
            assert optim.step(1.0).finite
            assert abs(w[mine] - whole[mine]).max() < 1e-6

    both(body)


sentences.run([steps_follow_the_formula_of_lars_and_write_copies_and_momentum,
               a_nan_skips_the_step_and_halves_the_loss_scale,
               an_optimiser_with_a_scale_divides_by_it_and_updates_it, schedules_are_functions_of_the_step, what_is_wrong_is_named,
               shards_get_the_weights_of_the_whole])
