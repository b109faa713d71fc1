#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The Python package: elastic averaging."""
import numpy

import plait
import sentences
from python_ranks import NRANK, both, equal, wrong

N = 1000


def sync_modes_pull_all_workers_to_one_centre():
    def body(rank, uid):
        with plait.Comm.create(NRANK, rank, uid) as comm:
            for mode in 'sync1', 'sync2', 'sync3':
                w = plait.zeros(N, numpy.float32)
                w += rank
                with comm.elastic(w, mode=mode, rho=0.5, lr=0.5) as e:
                    e.start()
                    e.finish()
                    equal(w, numpy.full(N, rank - 0.25 * rank))  # the centre was rank 0's: 0
                    equal(e.centre(), numpy.full(N, 0.25 * sum(range(NRANK))))
                    e.step(numpy.ones(N, numpy.float32))
                    equal(w, numpy.full(N, rank - 0.25 * rank - 0.5))
                    assert e.counts['exchanges'] == 1 and e.counts['pull'] == 0.25

    both(body)


def servers_keep_what_workers_give():
    def body(rank, uid):
        with plait.Comm.create(NRANK, rank, uid) as comm:
            workers = comm.split(0 if rank < 2 else None)
            if rank >= 2:
                with comm.elastic(None, count=N, mode='async', rho=1, lr=1, servers=2) as e:
                    e.serve()
                    assert e.counts['exchanges'] == 20 and e.counts['left'] == 2
                return
            w = numpy.full(N, rank + 1, numpy.float32)
            with comm.elastic(w, mode='async', rho=1, lr=1, servers=2) as e:
                for _ in range(10):
                    e.exchange()
                workers.barrier()
                whole = workers.allreduce(w, out=numpy.empty_like(w))
                equal(whole + e.centre(), numpy.full(N, 1 + 2 + 1))
                workers.barrier()
            workers.destroy()

    both(body)


def what_is_wrong_is_named():
    w = numpy.zeros(N, numpy.float32)
    with plait.Comm.create(1, 0) as comm:
        wrong(plait.ArgError, "no mode 'sync4'", lambda: comm.elastic(w, mode='sync4'))
        wrong(plait.ArgError, "payload is 'int32'", lambda: comm.elastic(w, payload='int32'))
        wrong(plait.ArgError, 'payload is None', lambda: comm.elastic(w, payload=None))
        wrong(plait.ArgError, 'no mode 3', lambda: comm.elastic(w, mode=3))
        wrong(plait.ArgError, 'count is 5', lambda: comm.elastic(w, count=5))
        wrong(plait.ArgError, "algorithm is 'zzz'", lambda: comm.elastic(w, mode='sync1', algorithm='zzz'))
        wrong(plait.ArgError, 'must be float32', lambda: comm.elastic(w.astype(float)))
        wrong(plait.ArgError, 'a server gives count', lambda: comm.elastic(None))
        wrong(plait.ArgError, 'a server and a worker', lambda: comm.elastic(w, mode='hogwild'))
        wrong(plait.ArgError, 'period is -1', lambda: comm.elastic(w, period=-1))
        wrong(plait.ArgError, 'threads is -1', lambda: comm.elastic(w, mode='hogwild', threads=-1))
        wrong(plait.ArgError, 'servers is -1', lambda: comm.elastic(w, mode='async', servers=-1))
        with comm.elastic(w) as e:
            wrong(plait.ArgError, 'no exchange', e.finish)
            wrong(plait.ArgError, 'gradient has 5 elements', lambda: e.step(w[:5]))
        wrong(plait.ArgError, 'was destroyed', e.start)


sentences.run([sync_modes_pull_all_workers_to_one_centre, servers_keep_what_workers_give,
               what_is_wrong_is_named])
