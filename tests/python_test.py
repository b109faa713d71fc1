#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The Python package: every collective against NumPy, between processes and between threads; errors."""
import gc
import inspect
import os
import re
import signal
import subprocess
import sys
import threading
import warnings
import weakref

import numpy

import plait
from plait import _library
import python_ranks as ranks
import sentences
from python_ranks import NRANK, both, equal, wrong

NATIVE = ['int8', 'uint8', 'int32', 'uint32', 'int64', 'uint64', 'float16', 'float32', 'float64']


def vectors(n, dtype='float32', nrank=NRANK):
    """An input for each rank: small whole numbers, whose sums and products are exact in every type."""
    return [((numpy.arange(n) * (r + 3)) % 4).astype(dtype) for r in range(nrank)]


REFERENCE = {
    'sum': lambda v: sum(v.astype('int64')),
    'prod': lambda v: v.astype('int64').prod(axis=0),
    'max': lambda v: v.max(axis=0),
    'min': lambda v: v.min(axis=0),
    'avg': lambda v: sum(v.astype('int64')) / NRANK if v.dtype.kind == 'f' else sum(v.astype('int64')) // NRANK,
}


# ---- Every collective --------------------------------------------------------------------------------------


def ranks_meet_over_tcp():
    if 'libsodium:yes' not in _library.lib.plait_features().decode():
        print('skipped: ranks_meet_over_tcp: built without libsodium')
        return
    uid = plait.unique_id(ifname='=lo')

    def body(rank, _uid):
        with plait.Comm.create(NRANK, rank, uid) as comm:
            equal(comm.allreduce(numpy.full(3, rank + 1.0)), numpy.full(3, 10.0))
            return comm.peer(rank), comm.peer((rank + 1) % NRANK)

    both = {'device': '', 'node': 0, 'gpu': 'mapped', 'shares': ''}
    here, there = {'transport': 'self', **both}, {'transport': 'shm', **both}
    seen = ranks.processes(NRANK, body)
    assert seen == [(here, there)] * NRANK, seen
    wrong(plait.ConfigError, 'nowhere', lambda: plait.unique_id(ifname='=nowhere'))


def a_launcher_says_who_is_who():
    code = ('import numpy, plait; l = plait.launch(); c = plait.Comm.create(l.nrank, l.rank, l.id); '
            'print(l.launcher, l.rank, l.local_nrank, c.allgather(numpy.array([l.rank]), out=numpy.zeros(3, int)).tolist())')
    said = {'WORLD_SIZE': '3', 'LOCAL_WORLD_SIZE': '3', 'TORCHELASTIC_RUN_ID': f'python-{os.getpid()}'}
    jobs = [subprocess.Popen([sys.executable, '-c', code], stdout=subprocess.PIPE, text=True,
                             env={**os.environ, **said, 'RANK': str(r), 'LOCAL_RANK': str(r)}) for r in range(3)]
    for rank, job in enumerate(jobs):
        assert job.communicate(timeout=60)[0] == f'torchrun {rank} 3 [0, 1, 2]\n'
    assert plait.launch()[:3] == ('none', 0, 1)


def reductions_agree_with_numpy_for_every_type_and_operator():
    def body(rank, uid):
        with plait.Comm.create(NRANK, rank, uid) as comm:
            for dtype in NATIVE:
                for op, reference in REFERENCE.items():
                    v = vectors(20, dtype)
                    expected = reference(numpy.array(v)).astype(dtype)
                    x = v[rank].copy()
                    assert comm.allreduce(x, op) is x
                    equal(x, expected)
                    x, out = v[rank].copy(), numpy.zeros(20, dtype)
                    assert comm.allreduce(x, op=op, out=out) is out
                    equal(out, expected)
                    equal(x, v[rank])
                    equal(comm.reduce_scatter(v[rank].copy(), op), expected[5 * rank:5 * rank + 5])
                    for root in range(NRANK):
                        result = comm.reduce(v[rank].copy(), op, root=root)
                        if rank == root:
                            equal(result, expected)
                        else:
                            assert result is None
    both(body)


def reductions_leave_the_input_with_out():
    def body(rank, uid):
        v = vectors(8)
        whole = numpy.array(v).sum(axis=0)
        with plait.Comm.create(NRANK, rank, uid) as comm:
            x, part, out = v[rank].copy(), numpy.zeros(2, 'float32'), numpy.zeros(8, 'float32')
            assert comm.reduce_scatter(x, out=part) is part
            equal(part, whole[2 * rank:2 * rank + 2])
            comm.reduce(x, root=1, out=out if rank == 1 else None)
            equal(out, whole if rank == 1 else 0)
            equal(x, v[rank])
    both(body)


def moves_agree_with_numpy_in_place_and_with_out():
    def body(rank, uid):
        v = [x.reshape(NRANK, 3) for x in vectors(3 * NRANK, 'int64')]
        parts = numpy.array([v[r][0] for r in range(NRANK)])
        with plait.Comm.create(NRANK, rank, uid) as comm:
            x = numpy.zeros_like(parts)
            x[rank] = parts[rank]
            assert comm.allgather(x) is x
            equal(x, parts)
            equal(comm.allgather(parts[rank].copy(), out=numpy.zeros_like(parts)), parts)
            equal(comm.alltoall(v[rank], numpy.zeros_like(v[rank])), [v[r][rank] for r in range(NRANK)])
            for root in range(NRANK):
                at_root = rank == root
                equal(comm.broadcast(v[rank].copy(), root=root), v[root])
                equal(comm.broadcast(v[root] if at_root else None, root=root, out=numpy.zeros_like(v[0])), v[root])
                x = numpy.zeros_like(parts) if at_root else parts[rank].copy()
                if at_root:
                    x[rank] = parts[rank]
                for result in (comm.gather(x, root=root),
                               comm.gather(parts[rank].copy(), root=root, out=numpy.zeros_like(parts))):
                    if at_root:
                        equal(result, parts)
                    else:
                        assert result is None
                x = v[root].copy() if at_root else numpy.zeros(3, 'int64')
                equal(comm.scatter(x, root=root).reshape(3), v[root][rank])
                equal(comm.scatter(v[root] if at_root else None, root=root, out=numpy.zeros(3, 'int64')), v[root][rank])
            comm.barrier()
    both(body)


def parts_of_different_sizes_agree_with_numpy():
    counts, spread = [3, 0, 5, 2], [9, 0, 1, 13]  # `spread`: with gaps, and not in order

    def cut(x, r, starts=(0, 3, 3, 8)):
        return x[starts[r]:starts[r] + counts[r]]

    def body(rank, uid):
        v = vectors(10)
        total = sum(v)
        with plait.Comm.create(NRANK, rank, uid) as comm:
            equal(comm.reduce_scatterv(v[rank].copy(), counts), cut(total, rank))
            equal(comm.reduce_scatterv(v[rank], counts, out=numpy.zeros(counts[rank], 'float32')), cut(total, rank))
            joined = numpy.concatenate([cut(v[r], r) for r in range(NRANK)])
            x = numpy.zeros(10, 'float32')
            cut(x, rank)[:] = cut(v[rank], rank)
            equal(comm.allgatherv(x, counts), joined)
            x = comm.allgatherv(cut(v[rank], rank), counts, out=numpy.zeros(15, 'float32'), starts=spread)
            for r in range(NRANK):
                equal(cut(x, r, spread), cut(v[r], r))
            for root in range(NRANK):
                at_root = rank == root
                result = comm.gatherv(cut(v[rank], rank), counts if at_root else None, root=root,
                                      out=numpy.zeros(10, 'float32') if at_root else None)
                if at_root:
                    equal(result, joined)
                out = numpy.zeros(counts[rank], 'float32')
                equal(comm.scatterv(v[root] if at_root else None, counts if at_root else None, root=root, out=out),
                      cut(v[root], rank))
            sent = numpy.array([rank + r for r in range(NRANK)])  # symmetric: as much comes as goes
            x = numpy.repeat(numpy.arange(NRANK), sent) + 10 * rank
            equal(comm.alltoallv(x, sent, numpy.zeros_like(x), sent),
                  numpy.repeat(10 * numpy.arange(NRANK) + rank, sent))
    both(body)


def sixteen_and_eight_bit_floats_are_given_by_name():
    one = {'bfloat16': (0x3f80, 0x4080, 'uint16'), 'float8e4m3': (0x38, 0x48, 'uint8'),
           'float8e5m2': (0x3c, 0x44, 'uint8')}

    def body(rank, uid):
        with plait.Comm.create(NRANK, rank, uid) as comm:
            for dtype, (bits, four, holder) in one.items():
                equal(comm.allreduce(numpy.full(7, bits, holder), dtype=dtype), four)  # 1 + 1 + 1 + 1
                equal(comm.broadcast(numpy.full(7, bits + rank, holder), root=3, dtype=dtype), bits + 3)
                equal(comm.allreduce(numpy.full(7, bits, holder), 'premulsum', dtype=dtype,
                                     scale=numpy.array(bits, holder)), four)
    both(body)


def all_to_all_works_in_place():
    def body(rank, uid):
        with plait.Comm.create(2, rank, uid) as comm:
            own = numpy.array([rank, rank + 10.0])  # element r is for rank r
            equal(comm.alltoall(own, own), numpy.array([rank * 10.0, rank * 10.0 + 1]))
    both(body, nrank=2)


def shapes_and_no_elements_are_welcome():
    def body(rank, uid):
        with plait.Comm.create(2, rank, uid) as comm:
            equal(comm.allreduce(numpy.ones((2, 3, 4))), numpy.full((2, 3, 4), 2))
            equal(comm.allreduce(numpy.array(3.0)), 6)
            assert comm.allreduce(numpy.empty((0, 5))).shape == (0, 5)
            assert comm.reduce_scatter(numpy.ones((4, 3))).shape == (2, 3)
            assert comm.allgather(numpy.ones((0, 3))).shape == (0, 3)
    both(body, nrank=2)


def one_rank_needs_no_id():
    with plait.Comm.create(1, 0) as comm:
        equal(comm.allreduce(numpy.arange(3)), [0, 1, 2])
        assert (comm.rank, comm.nrank) == (0, 1)


# ---- Options and operators ---------------------------------------------------------------------------------


def options_reach_the_library():
    def body(rank, uid):
        with plait.Comm.create(2, rank, uid, name='options', reproducible=True, round='once', node=[0, 1]) as comm:
            x = numpy.full(1000, rank + 1.0, 'float16')
            equal(comm.allreduce(x, algorithm='one-shot', slice=4096, round='hop', reproducible=True, deadline=20), 3)
            equal(comm.allreduce(numpy.full(4, 2.0), 'premulsum', scale=rank + 0.5), 4)
            try:
                comm.allreduce(x, algorithm='ringg')
            except plait.ConfigError as error:
                assert "did you mean 'ring'" in str(error), error
            wrong(plait.ArgError, 'mark is -1', lambda: comm.allreduce(x, mark=-1))
            equal(comm.allreduce(numpy.ones(4), mark=2**32 - 1), 2)
            assert comm.stats()['operations'] == 3
            wrong(plait.MismatchError, 'mark', lambda: (comm.allreduce(x, mark=rank), comm.barrier()))
            wrong(plait.MismatchError, 'mark', comm.destroy)
    both(body, nrank=2)


def functions_are_operators_in_rank_order():
    def body(rank, uid):
        with plait.Comm.create(NRANK, rank, uid) as comm:
            equal(comm.allreduce(numpy.full(100, 2.0 ** rank), numpy.add, commutative=True), 2 ** NRANK - 1)
            equal(comm.allreduce(numpy.full(100, rank), lambda a, b: b), NRANK - 1)
            equal(comm.reduce_scatter(numpy.full(NRANK, rank, 'int8'), lambda a, b: a), 0)
    both(body)


def an_operator_that_raises_fails_the_comm():
    def body(rank, uid):
        def divide(a, b):
            if rank == 1:
                raise ZeroDivisionError('no quotient')
            return a + b

        with plait.Comm.create(2, rank, uid) as comm:
            comm.allreduce(numpy.ones(4), divide)
            comm.barrier()
    for run in (ranks.processes, ranks.threads):
        others, culprit = run(2, body)
        assert isinstance(culprit, ZeroDivisionError), repr(culprit)
        assert isinstance(others, plait.FailedError) and 'no quotient' in str(others), repr(others)


# ---- Errors ------------------------------------------------------------------------------------------------


def wrong_arguments_are_named_and_change_nothing():
    x, y, room = numpy.zeros(6), numpy.zeros(5), numpy.zeros(8)
    fixed = numpy.zeros(6)
    fixed.flags.writeable = False
    arg = plait.ArgError

    def body(rank, uid):
        with plait.Comm.create(2, rank, uid) as comm:
            wrong(TypeError, 'allreduce: x is of type list', lambda: comm.allreduce([1, 2]))
            wrong(TypeError, 'allreduce: out is of type str', lambda: comm.allreduce(x, out='y'))
            wrong(TypeError, 'alltoall: out is of type NoneType', lambda: comm.alltoall(x, None))
            wrong(TypeError, "is no option 'algoritm'; there are algorithm,", lambda: comm.barrier(algoritm='ring'))
            wrong(arg, 'x is not contiguous .*ascontiguousarray', lambda: comm.allreduce(numpy.zeros((4, 4))[:, 1]))
            wrong(arg, 'out is not contiguous', lambda: comm.allreduce(x, out=numpy.zeros(12)[::2]))
            wrong(arg, 'allreduce: x is read-only, but the result', lambda: comm.allreduce(fixed))
            wrong(arg, 'gather: out is read-only', lambda: comm.gather(x, root=rank, out=fixed))
            wrong(arg, 'x has dtype >f8 in foreign byte order', lambda: comm.allreduce(x.astype('>f8')))
            wrong(arg, 'dtype complex128 of x is none of .*float8e5m2', lambda: comm.allreduce(x.astype(complex)))
            wrong(arg, "dtype='bfloat16', but x has dtype float64", lambda: comm.allreduce(x, dtype='bfloat16'))
            wrong(arg, 'x has dtype float64, but out has int64', lambda: comm.allreduce(x, out=numpy.zeros(6, int)))
            wrong(arg, 'out has 5 elements, but x has 6; out must have as many', lambda: comm.allreduce(x, out=y))
            wrong(arg, r'x has shape \(5,\); its first dimension must be a multiple', lambda: comm.reduce_scatter(y))
            wrong(arg, 'out has 5 elements, but x has 6; out must have 2 times', lambda: comm.allgather(x, out=y))
            wrong(arg, "op is 'xor'; .* sum, prod", lambda: comm.allreduce(x, op='xor'))
            wrong(arg, 'allreduce: op is None; it must be', lambda: comm.allreduce(x, op=None))
            wrong(arg, r"op is 'sum\\x00'; it must be without", lambda: comm.allreduce(x, op='sum\0'))
            wrong(arg, r"algorithm is 'ring\\x00x'; it must be without", lambda: comm.allreduce(x, algorithm='ring\0x'))
            wrong(TypeError, 'algorithm is 5, of type int; it must be a str', lambda: comm.allreduce(x, algorithm=5))
            wrong(arg, r"dtype is 'float64\\x00'; it must be without", lambda: comm.allreduce(x, dtype='float64\0'))
            wrong(arg, r"duplicate: name is 'a\\x00b'; it must be without", lambda: comm.duplicate(name='a\0b'))
            wrong(TypeError, 'split: name is 7, of type int', lambda: comm.split(0, name=7))
            wrong(arg, "op is 'user'", lambda: comm.allreduce(x, op='user'))
            wrong(arg, 'premulsum, but call->scale is NULL', lambda: comm.allreduce(x, op='premulsum'))
            wrong(arg, 'call->scale is .* but op is sum', lambda: comm.allreduce(x, scale=2.0))
            wrong(arg, 'barrier: scale is 2, but a call without data', lambda: comm.barrier(scale=2))
            wrong(arg, 'call->scale is .* but op is sum', lambda: comm.broadcast(x, scale=2))
            wrong(arg, 'scale is 0.5, but the arrays are of uint16',
                  lambda: comm.allreduce(numpy.zeros(2, 'uint16'), 'premulsum', scale=0.5, dtype='bfloat16'))
            wrong(arg, 'commutative is given, but op is', lambda: comm.allreduce(x, commutative=True))
            wrong(arg, 'round is .never.; .* one of default, once, hop', lambda: comm.allreduce(x, round='never'))
            wrong(arg, 'root is 2, but the comm has 2 ranks', lambda: comm.broadcast(x, root=2))
            wrong(arg, 'root is -1, but the comm has ranks 0 to 1', lambda: comm.broadcast(x, root=-1))
            wrong(arg, r'counts is \[1\]; it must be 2 whole numbers', lambda: comm.allgatherv(x, [1]))
            wrong(arg, r'starts is \[0.5, 1.5\]; it must', lambda: comm.allgatherv(x, [1, 1], starts=[.5, 1.5]))
            wrong(arg, 'no number may be negative', lambda: comm.allgatherv(x, [-1, 7]))
            wrong(arg, 'the part of rank 1 ends at element 7, but x has 6', lambda: comm.reduce_scatterv(x, [3, 4]))
            wrong(arg, r'x has 6 elements, but counts\[.\], of this rank, is 2',
                  lambda: comm.allgatherv(x, [2, 2], out=numpy.zeros(6)))
            wrong(arg, 'overlap', lambda: comm.alltoall(room[:6], room[2:]))
            wrong(arg, 'create: id is .*; it must be 128 bytes', lambda: plait.Comm.create(2, 0, b'short'))
            wrong(arg, 'create: id is None, but nrank is 2', lambda: plait.Comm.create(2, 0))
            wrong(arg, 'create: node has 1 numbers', lambda: plait.Comm.create(2, rank, uid, node=[0]))
            wrong(arg, 'create: rank is -1', lambda: plait.Comm.create(2, -1, uid))
            wrong(arg, 'nrank is 0', lambda: plait.Comm.create(0, 0, uid))
            wrong(arg, 'nrank is 10{30}; it must be 0 to 4294967295', lambda: plait.Comm.create(10 ** 30, 0, uid))
            wrong(arg, r"create: name is 'x\\x00'", lambda: plait.Comm.create(2, rank, uid, name='x\0'))
            equal(comm.allreduce(numpy.ones(3)), 2)
            assert comm.stats()['operations'] == 1
        wrong(arg, "barrier: comm 'comm' was destroyed", comm.barrier)
        wrong(TypeError, 'Comm.create', plait.Comm)
    both(body, nrank=2)


def exceptions_are_of_python_and_of_the_library():
    assert issubclass(plait.ArgError, ValueError) and issubclass(plait.TimeoutError, TimeoutError)
    assert issubclass(plait.NomemError, MemoryError) and issubclass(plait.MismatchError, plait.Error)
    wrong(ValueError, 'shape', lambda: plait.zeros(-1))
    wrong(plait.ArgError, 'Python objects', lambda: plait.zeros(2, object))
    wrong(MemoryError, 'PLAIT_ARENA', lambda: plait.zeros(1 << 45, 'uint8'))


def a_mismatch_is_told_on_every_rank_with_both_values():
    def body(rank, uid):
        with plait.Comm.create(3, rank, uid) as comm:
            comm.allreduce(numpy.zeros(12 if rank == 2 else 10))
    for run in (ranks.processes, ranks.threads):
        for error in run(3, body):
            assert isinstance(error, plait.MismatchError) and error.name == 'PLAIT_ERR_MISMATCH', repr(error)
            assert error.status == plait.MismatchError.status < 0
            for word in ('rank 2', 'count', '10', '12'):
                assert word in str(error), (word, str(error))


def a_killed_rank_is_told_to_the_others():
    def body(rank, uid):
        with plait.Comm.create(3, rank, uid) as comm:
            comm.allreduce(numpy.zeros(10))
            if rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            comm.allreduce(numpy.zeros(10))
    first, killed, last = ranks.processes(3, body)
    assert isinstance(killed, ranks.Died) and killed.args == (-signal.SIGKILL,), repr(killed)
    for error in (first, last):
        assert isinstance(error, plait.PeerError) and 'rank 1' in str(error), repr(error)


def a_silent_rank_is_a_timeout():
    asked = threading.Event()

    def body(rank, uid):
        comm = plait.Comm.create(2, rank, uid)
        if rank == 0:
            wrong(TimeoutError, 'rank 1', lambda: comm.allreduce(numpy.zeros(4), deadline=0.2))
            asked.set()
        else:
            asked.wait(ranks.LIMIT)
            wrong(plait.TimeoutError, 'rank 1', comm.barrier)
        wrong(plait.TimeoutError, 'rank 1', comm.destroy)
    ranks.good(ranks.threads(2, body))


def an_exception_that_leaves_the_block_is_told_to_the_others():
    def body(rank, uid):
        with plait.Comm.create(2, rank, uid) as comm:
            if rank == 1:
                raise KeyError('weights')
            comm.barrier()
    other, culprit = ranks.processes(2, body)
    assert isinstance(culprit, KeyError), repr(culprit)
    assert isinstance(other, plait.FailedError) and 'KeyError' in str(other) and 'weights' in str(other), repr(other)


def an_error_that_a_call_has_raised_is_not_raised_again_at_the_end_of_the_block():
    def body(rank, uid):
        told, code = [], None
        try:
            with plait.Comm.create(NRANK, rank, uid) as comm:
                try:
                    comm.allreduce(numpy.zeros(3 + rank))
                except plait.MismatchError as error:
                    told.append(error)
                if rank == 1:
                    raise SystemExit(7)
        except SystemExit as error:
            code = error.code, error.__context__
        return len(told), code
    for run in ranks.processes, ranks.threads:
        assert run(NRANK, body) == [(1, (7, None) if rank == 1 else None) for rank in range(NRANK)]


def an_error_that_no_call_has_raised_is_raised_at_the_end_of_the_block():
    def block():
        with plait.Comm.create(1, 0) as comm:
            comm.abort('a reason')
    wrong(plait.FailedError, 'a reason', block)


def no_text_shows_an_id():
    launch, secret = plait.launch(), bytes(range(65, 91))
    assert 'id=<id of 128 bytes>' in f'{launch} {launch!r}'
    assert launch == tuple(launch) and launch.id == launch[5]
    assert bytes.__repr__(launch.id)[2:-1] not in repr(launch) + str(launch) + '%s' % (launch,)
    for wrong_id in secret, secret.decode(), bytearray(secret):
        try:
            plait.Comm.create(2, 0, wrong_id)
        except plait.ArgError as error:
            assert 'ABC' not in str(error) and '128 bytes' in str(error), error
        else:
            raise AssertionError('it was taken')
    uid = plait.unique_id(tcp=True)
    for text in (repr(uid), str(uid), f'{uid}', '%s' % uid, repr([uid])):
        assert '<id of 128 bytes>' in text and len(text) < 30, text
    assert len(uid) == 128 and bytes(uid) == uid


def arrays_live_until_a_failed_comm_is_destroyed():
    def body(rank, uid):
        comm = plait.Comm.create(2, rank, uid)
        x = numpy.zeros(10 + rank)
        alive = weakref.ref(x)
        wrong(plait.MismatchError, 'count', lambda: comm.allreduce(x))
        del x
        gc.collect()
        assert alive() is not None
        wrong(plait.MismatchError, 'count', comm.destroy)
        gc.collect()
        assert alive() is None
    ranks.good(ranks.threads(2, body))


def a_comm_that_is_forgotten_warns():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        comm = plait.Comm.create(1, 0, name='forgotten')
        handle = comm._handle
        del comm
        gc.collect()
    assert any(issubclass(w.category, ResourceWarning) and 'forgotten' in str(w.message) for w in caught), caught
    plait._lib.plait_comm_destroy(handle)


# ---- Memory, loading ---------------------------------------------------------------------------------------


def library_memory_is_not_staged():
    def body(rank, uid):
        with plait.Comm.create(2, rank, uid) as comm:
            staged = []
            for x in (plait.zeros((512, 512), 'float32'), numpy.zeros((512, 512), 'float32')):
                x[:] = rank
                equal(comm.allreduce(x), 1)
                staged.append(comm.stats()['bytes_staged'])
            assert staged[0] == 0 and staged[1] > 0, staged
    ranks.good(ranks.processes(2, body))


ARENA = """
import numpy, plait
for _ in range(20):
    x = plait.zeros(16 << 20, "uint8")
    view = x[1:].reshape(-1)
    del x
    view[-1] = 1  # the memory is there
    del view
kept = [plait.zeros(16 << 20, "uint8") for _ in range(3)]
assert not any(x.any() for x in kept)
try:
    kept += [plait.zeros(16 << 20, "uint8") for _ in range(3)]
except plait.NomemError as error:
    print(error)
"""


def python(code, **environment):
    """What a program of its own says on stdout and stderr."""
    return subprocess.run([sys.executable, '-c', code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, env={'PYTHONPATH': os.environ['PYTHONPATH'], **environment}).stdout


def library_memory_is_freed_with_its_last_array():
    said = python(ARENA, PLAIT_LIBRARY=os.environ['PLAIT_LIBRARY'], PLAIT_ARENA='64M')
    assert 'PLAIT_ARENA' in said and 'Traceback' not in said, said


def a_library_that_is_missing_is_named_with_the_remedy():
    said = python('import plait', PLAIT_LIBRARY='/nowhere/libplait.so')
    assert "ImportError: PLAIT_LIBRARY='/nowhere/libplait.so' cannot be loaded" in said, said
    said = python('import plait', PLAIT_LIBRARY='libc.so.6')
    assert 'ImportError: libc.so.6 has no plait_version(): it is not a Plait library' in said, said
    said = python('import plait')
    assert said == '' or 'set PLAIT_LIBRARY to its path' in said, said  # '': it is installed here
    assert said.count('Traceback') <= 1, said
    assert '_library.py' not in said and said.count('plait/__init__.py') <= 1, said  # no frames of ours but where it ends


def help_documents_every_option():
    calls = {name for name, call in vars(plait.Comm).items()
             if callable(call) and 'options' in inspect.signature(call).parameters}
    assert {'allreduce', 'alltoallv', 'barrier', 'send'} <= calls, calls
    for name in calls:
        text, parameters = inspect.getdoc(getattr(plait.Comm, name)), inspect.signature(getattr(plait.Comm, name)).parameters
        wanted = set(parameters) - {'self', 'x', 'options'} | {'deadline', 'wait', 'persistent'}
        wanted -= {'out'} if name in ('recv', 'alltoall', 'alltoallv') else set()
        missing = {w for w in wanted if not re.search(rf'^{w} ', text, re.M)}
        assert not missing, (name, missing)
    for call in plait.Comm.create, plait.Comm.fusion, plait.Comm.elastic:
        text = inspect.getdoc(call)
        missing = {w for w in set(inspect.signature(call).parameters) - {'self', 'tensors'}
                   if not re.search(rf'^(rho, )?{w}\b', text, re.M)}
        assert not missing, (call, missing)
    assert re.search(r'^algorithm +such as "ring".*default', inspect.getdoc(plait.Comm.allreduce), re.M)


sentences.run([
    ranks_meet_over_tcp, a_launcher_says_who_is_who,
    reductions_agree_with_numpy_for_every_type_and_operator, reductions_leave_the_input_with_out,
    moves_agree_with_numpy_in_place_and_with_out, parts_of_different_sizes_agree_with_numpy,
    sixteen_and_eight_bit_floats_are_given_by_name, shapes_and_no_elements_are_welcome, one_rank_needs_no_id,
    options_reach_the_library, functions_are_operators_in_rank_order, an_operator_that_raises_fails_the_comm,
    wrong_arguments_are_named_and_change_nothing, exceptions_are_of_python_and_of_the_library,
    a_mismatch_is_told_on_every_rank_with_both_values, a_killed_rank_is_told_to_the_others, a_silent_rank_is_a_timeout,
    an_exception_that_leaves_the_block_is_told_to_the_others,
    an_error_that_a_call_has_raised_is_not_raised_again_at_the_end_of_the_block,
    an_error_that_no_call_has_raised_is_raised_at_the_end_of_the_block, no_text_shows_an_id, arrays_live_until_a_failed_comm_is_destroyed,
    a_comm_that_is_forgotten_warns, library_memory_is_not_staged, library_memory_is_freed_with_its_last_array,
    a_library_that_is_missing_is_named_with_the_remedy, help_documents_every_option,
])
