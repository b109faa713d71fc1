#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The Python package: fusion."""
import json
import os

import numpy

import plait
import sentences
from python_ranks import NRANK, both, equal, wrong


def gradients_are_averaged_where_they_live():
    def body(rank, uid):
        own = numpy.zeros((6, 5), numpy.float32)[:3]  # a part of another
        tensors = {'w': ((100, 30), 'float32'), 'own': own, 'b': (7, 'float64')}
        with plait.Comm.create(NRANK, rank, uid) as comm, comm.fusion(tensors, op='avg', check=True) as f:
            for step in range(5):
                for name in ('b', 'w', 'own'):
                    f[name][...] = rank + step
                    f.ready(name)
                assert f.wait_all()
                for name in tensors:
                    equal(f[name], sum(range(NRANK)) / NRANK + step)
            assert f['own'] is own
            f['w'][...] = numpy.nan if rank == 1 else 0
            f.skip('b')
            f.ready('own')
            f.ready('w')
            assert not f.wait_all()
    both(body)


def a_payload_of_16_bits_and_a_trace():
    def body(rank, uid):
        path = f'python_fusion_{os.getpid()}.json'
        with plait.Comm.create(2, rank, uid) as comm:
            with comm.fusion({'a': (1000, 'float32'), 'b': (10, 'float32')}, payload='bfloat16', layout=[1],
                             trace=True) as f:
                f.set_scale(0.5, 4)
                f['a'][:], f['b'][:] = 3, 5
                f.ready('b')
                f.ready('a')
                equal(f.wait('a'), 12)
                f.wait_all()
                equal(f['b'], 20)
                f.trace(path)
        if rank == 0:
            with open(path, encoding='ascii') as file:
                events = json.load(file)['traceEvents']
            os.unlink(path)
            names = {e['args']['name'] for e in events if e['name'] == 'process_name'}
            assert names == {'rank 0', 'rank 1'}, names
            assert sum(e['name'] == 'bucket 0' and e['tid'] == 2 for e in events) == 2
    both(body, nrank=2)


def taken_again(array_at, shape):
    """Does new memory lie there?"""
    new = plait.zeros(shape, 'float32')
    return new.ctypes.data <= array_at < new.ctypes.data + new.nbytes


def arrays_in_buckets_outlive_the_fusion_and_the_comm():
    """Their memory was given back, and held other things or nothing."""
    shape = (1000, 1000)

    def body(rank, uid):
        with plait.Comm.create(1, rank, uid) as comm:
            with comm.fusion({'w': (shape, 'float32'), 'b': (7, 'float64')}) as f:
                f['w'][...], f['b'][...] = 3, 4
                first, row, at = f['w'], f['b'][5:], f['w'].ctypes.data
        others = [plait.zeros(shape, 'float32') for _ in range(4)]
        for other in others:
            other[...] = -1
        equal(first, 3)
        equal(row, 4)
        del first
        assert not taken_again(at, shape)  # `row` has the same memory
        del row
        assert taken_again(at, shape)
    both(body, nrank=1)


def wrong_use_is_named():
    def body(rank, uid):
        with plait.Comm.create(1, rank, uid) as comm:
            wrong(plait.ArgError, 'payload is', lambda: comm.fusion({'a': (1, 'float32')}, payload='int7'))
            two = {'a': (1, 'float32'), 'b': (1, 'float32')}  # with -4 they had one bucket
            for layout in ('computed', None, -4, 1 << 64, 2.5, [-1], [(1 << 32) + 1], [1.5], ['a']):
                wrong(plait.ArgError, 'layout is .*; it must be', lambda at=layout: comm.fusion(two, layout=at))
            wrong(plait.ArgError, 'ntensor is 0', lambda: comm.fusion({}))
            wrong(TypeError, 'tensors is of type list; it must be a dict', lambda: comm.fusion([(1, 'float32')]))
            wrong(TypeError, 'name 0 of a tensor is of type int', lambda: comm.fusion({0: (1, 'float32')}))
            wrong(TypeError, 'fusion: op is 3, of type int', lambda: comm.fusion({'a': (1, 'float32')}, op=3))
            wrong(plait.ArgError, r"name of a tensor is 'a\\x00'", lambda: comm.fusion({'a\0': (1, 'float32')}))
            wrong(TypeError, 'tensor a is 5; it must be', lambda: comm.fusion({'a': 5}))
            f = comm.fusion({'a': (1, 'float32')})
            wrong(plait.ArgError, "no tensor 'b'", lambda: f.ready('b'))
            f.ready('a')
            f.wait_all()
            f.destroy()
            wrong(plait.ArgError, 'was destroyed', lambda: f.ready('a'))
    both(body, nrank=1)


sentences.run([gradients_are_averaged_where_they_live, a_payload_of_16_bits_and_a_trace,
               arrays_in_buckets_outlive_the_fusion_and_the_comm, wrong_use_is_named])
