#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The Python package: requests, persistent operations, messages, groups; comms of comms and their life."""
import gc
import multiprocessing
import os
import signal
import threading
import time
import weakref

import numpy

import plait
import python_ranks as ranks
import sentences
from python_ranks import NRANK, both, equal, wrong


def together(nrank=NRANK, **options):
    """All ranks of a comm in this thread."""
    uid = plait.unique_id()
    with plait.group():
        comms = [plait.Comm.create(nrank, rank, uid, **options) for rank in range(nrank)]
    return comms


def destroy(comms):
    for comm in comms:
        comm.destroy()


# ---- Requests ----------------------------------------------------------------------------------------------


def requests_give_the_results_of_the_calls_in_any_order_of_waiting():
    def body(rank, uid):
        with plait.Comm.create(NRANK, rank, uid) as comm:
            x = numpy.full(50000, rank + 1)
            requests = [comm.allreduce(x, op, out=numpy.empty_like(x), wait=False) for op in ('sum', 'max', 'prod')]
            requests.append(comm.reduce(x, root=2, out=numpy.empty_like(x), wait=False))
            requests.append(comm.barrier(wait=False))
            assert all(isinstance(r, plait.Request) and r.pending for r in requests)
            comm.barrier()  # comes after them
            for request, expected in list(zip(requests, (10, 4, 24)))[::-1]:
                assert request.wait() is request.result and not request.pending
                equal(request.wait(), expected)  # again
            if rank == 2:
                equal(requests[3].wait(), 10)
            assert rank == 2 or requests[3].wait() is None
            assert requests[4].wait() is None
    both(body)


def testing_drives_a_request_to_its_end():
    def body(rank, uid):
        with plait.Comm.create(NRANK, rank, uid) as comm:
            request = comm.allreduce(numpy.full(100000, rank), wait=False)
            while not request.test():
                time.sleep(0)
            assert request.test() and not request.pending
            equal(request.result, 6)
    both(body)


def a_progress_thread_ends_requests_that_nobody_asks_for():
    def body(rank, uid):
        with plait.Comm.create(2, rank, uid, progress=True) as comm:
            x = numpy.full(100000, rank)
            request = comm.allreduce(x, lambda a, b: a + b, wait=False)  # runs in that thread
            until = time.monotonic() + ranks.LIMIT
            while comm.stats()['operations'] == 0 or x[-1] != 1:
                assert time.monotonic() < until
                time.sleep(0.001)
            equal(request.wait(), 1)
    ranks.good(ranks.processes(2, body))


def wait_any_takes_each_once_and_wait_all_all():
    def body(rank, uid):
        with plait.Comm.create(2, rank, uid) as comm:
            idle = comm.allreduce(numpy.zeros(1), persistent=True)
            requests = [idle] + [comm.allreduce(numpy.full(10, k), wait=False) for k in range(3)]
            assert sorted(plait.wait_any(requests) for _ in range(3)) == [1, 2, 3]
            assert plait.wait_any(requests) is None and plait.wait_any([]) is None
            for k, request in enumerate(requests[1:]):
                assert not request.pending
                equal(request.result, 2 * k)
            results = plait.wait_all([comm.allreduce(numpy.full(10, k), wait=False) for k in range(3)])
            for k, result in enumerate(results):
                equal(result, 2 * k)
    both(body, nrank=2)


def arrays_live_until_their_request_has_ended():
    def body(rank, uid):
        with plait.Comm.create(2, rank, uid) as comm:
            if rank == 1:
                comm.barrier()
                for expected in (1, 2):
                    equal(comm.recv(numpy.zeros(1 << 20), 0), expected)
                return
            sent = []
            for value in (1, 2):
                x = numpy.full(1 << 20, float(value))
                sent.append((weakref.ref(x), comm.send(x, 1, wait=False)))
                del x
            kept, forgotten = sent[0][0], sent.pop()[0]  # of the second nobody holds the request
            gc.collect()
            assert kept() is not None and forgotten() is not None
            comm.barrier()
            sent.pop()[1].wait()
            gc.collect()
            assert kept() is None and forgotten() is not None
        assert forgotten() is None
    ranks.good(ranks.processes(2, body))


def a_request_that_fails_says_so_whenever_it_is_asked():
    def body(rank, uid):
        comm = plait.Comm.create(2, rank, uid)
        good = comm.allreduce(numpy.zeros(3), wait=False)
        x = numpy.zeros(10 + rank)
        alive = weakref.ref(x)
        bad = comm.allreduce(x, wait=False)
        del x
        try:
            plait.wait_any([good, bad])
            plait.wait_any([good, bad])
        except plait.MismatchError as error:
            assert error.index == 1 and 'count' in str(error), error
        else:
            raise AssertionError('no MismatchError')
        equal(good.wait(), 0)
        wrong(plait.MismatchError, 'count', bad.wait)
        wrong(plait.MismatchError, 'count', bad.test)
        wrong(plait.MismatchError, 'count', lambda: plait.wait_all([good, bad]))
        del bad
        gc.collect()
        assert alive() is not None  # until the comm is destroyed
        wrong(plait.MismatchError, 'count', comm.destroy)
    for run in (ranks.processes, ranks.threads):
        ranks.good(run(2, body))


def an_operator_that_raises_fails_its_request():
    def body(rank, uid):
        def divide(a, b):
            raise ZeroDivisionError('no quotient')

        with plait.Comm.create(2, rank, uid) as comm:
            request = comm.allreduce(numpy.ones(4), divide, wait=False)
            wrong(ZeroDivisionError, 'no quotient', request.wait)
            wrong(ZeroDivisionError, 'no quotient', request.wait)
            wrong(plait.FailedError, 'no quotient', comm.barrier)
            raise KeyError('seen')
    for run in (ranks.processes, ranks.threads):
        for outcome in run(2, body):
            assert isinstance(outcome, KeyError), repr(outcome)


def destroying_a_comm_ends_its_requests():
    def body(rank, uid):
        comm = plait.Comm.create(2, rank, uid)
        request = comm.allreduce(numpy.full(1000, rank), wait=False)
        again = comm.allreduce(numpy.full(1000, rank), persistent=True)
        comm.destroy()
        assert not request.pending
        equal(request.wait(), 1)
        wrong(plait.ArgError, "start: comm 'comm' was destroyed", again.start)
    both(body, nrank=2)


def persistent_operations_run_again_and_again():
    def body(rank, uid):
        with plait.Comm.create(NRANK, rank, uid) as comm:
            x, out = numpy.zeros(1000), numpy.zeros(1000)
            with comm.allreduce(x, out=out, persistent=True) as again:
                assert isinstance(again, plait.Persistent) and not again.pending
                assert comm.stats()['operations'] == 0
                for k in range(5):
                    x[:] = k
                    again.start()
                    assert again.pending
                    wrong(plait.ArgError, 'pending; wait for it first', again.start)
                    wrong(plait.ArgError, 'pending; wait for it', again.free)
                    equal(again.wait() if k % 2 else plait.wait_all([again])[0], NRANK * k)
                    assert not again.pending
                    x[:] = k + 1
                    equal(again.run(), NRANK * (k + 1))
                assert comm.stats()['operations'] == 10
            wrong(plait.ArgError, 'request is NULL', again.start)
            comm.allreduce(x, persistent=True)  # given back by destroy()
    both(body)


def persistent_operations_run_in_a_group_and_end_with_it():
    comms = together()
    x = [numpy.full(5, rank + 1.0) for rank in range(NRANK)]
    again = [comm.allreduce(x[rank], out=numpy.zeros(5), persistent=True) for rank, comm in enumerate(comms)]
    for _ in range(2):
        with plait.group():
            results = [each.run() for each in again]
        for out in results:
            equal(out, 10)
    destroy(comms)

    def angry(a, b):
        raise ZeroDivisionError('the operator fails')
    comms = together()
    again = [comm.allreduce(numpy.zeros(5), angry, persistent=True) for comm in comms]

    def run():
        with plait.group():
            for each in again:
                each.run()
    wrong(ZeroDivisionError, 'the operator fails', run)
    for comm in comms:
        wrong(plait.Error, 'the operator fails', comm.destroy)


def a_late_scale_is_read_when_the_operation_runs():
    def body(rank, uid):
        with plait.Comm.create(2, rank, uid) as comm:
            scale, x = numpy.ones(1), numpy.full(3, rank + 1.0)
            with comm.allreduce(x, 'premulsum', scale=scale, scale_when='late', out=numpy.zeros(3),
                                persistent=True) as again:
                for k in (1, 2, 5):
                    scale[0] = k
                    equal(again.run(), 3 * k)
            wrong(plait.ArgError, "scale_when is 'later'; it must be one of now, late",
                  lambda: comm.allreduce(x, 'premulsum', scale=scale, scale_when='later'))
            wrong(plait.ArgError, 'scale is 2.0; with scale_when="late" it is a NumPy array of one element of float64',
                  lambda: comm.allreduce(x, 'premulsum', scale=2.0, scale_when='late'))
    both(body, nrank=2)


# ---- Messages and groups -----------------------------------------------------------------------------------


def messages_come_in_the_order_in_which_they_were_sent():
    def body(rank, uid):
        with plait.Comm.create(NRANK, rank, uid) as comm:
            to, source = (rank + 1) % NRANK, (rank - 1) % NRANK
            sends = [comm.send(numpy.full(n, rank), to, wait=False) for n in (1, 100000, 0, 7)]
            for n in (1, 100000, 0, 7):
                out = numpy.zeros(n, int)
                assert comm.recv(out, source) is out
                equal(out, source)
            assert plait.wait_all(sends) == [None] * 4
            bits = numpy.full(3, rank, 'uint16')
            request = comm.recv(numpy.zeros(3, 'uint16'), source, dtype='bfloat16', wait=False)
            comm.send(bits, to, dtype='bfloat16', deadline=50)
            equal(request.wait(), source)
            wrong(plait.ArgError, '7', lambda: comm.send(out, 7))
            wrong(plait.ArgError, 'source is -1', lambda: comm.recv(out, -1))
            wrong(TypeError, "no option 'algorithm'; there are deadline", lambda: comm.send(out, 0, algorithm='ring'))
    both(body)


def a_message_that_differs_is_named_on_both_ranks():
    def body(rank, uid):
        with plait.Comm.create(2, rank, uid) as comm:
            if rank == 0:
                comm.send(numpy.zeros(1000000), 1)  # more than is staged ahead
            else:
                comm.recv(numpy.zeros(999999), 0)
            comm.barrier()
    for error in ranks.processes(2, body):
        assert isinstance(error, plait.MismatchError), repr(error)
        assert '1000000' in str(error) and '999999' in str(error), error


def a_group_exchanges_with_everybody_at_once():
    def body(rank, uid):
        with plait.Comm.create(NRANK, rank, uid) as comm:
            mine = numpy.arange(NRANK * 20000).reshape(NRANK, -1) + 100 * rank
            theirs = numpy.zeros_like(mine)
            with plait.group():
                for r in reversed(range(NRANK)):
                    comm.send(mine[r], r)
                    comm.recv(theirs[r], r)
                with plait.group():
                    request = comm.allreduce(mine.copy(), wait=False)
                    wrong(plait.ArgError, 'group has not ended', request.wait)
                    assert request.pending
            for r in range(NRANK):
                equal(theirs[r], numpy.arange(20000) + 20000 * rank + 100 * r)
            equal(request.wait(), NRANK * numpy.arange(NRANK * 20000).reshape(NRANK, -1) + 600)
    both(body)


def one_thread_holds_all_ranks():
    comms = together(name='together')
    assert [(c.rank, c.nrank, c.name) for c in comms] == [(r, NRANK, 'together') for r in range(NRANK)]
    with plait.group():
        results = [c.allreduce(numpy.full(1000, c.rank)) for c in comms]
    for result in results:
        equal(result, 6)
    with plait.group():
        halves = [c.split(c.rank % 2 if c.rank < 3 else None, key=-c.rank, name='half') for c in comms]
    assert halves[3] is None and [(h.rank, h.nrank, h.name) for h in halves[:3]] == \
        [(1, 2, 'half'), (0, 1, 'half'), (0, 2, 'half')]
    requests = [c.allreduce(numpy.full(1000, c.rank), wait=False) for c in comms]
    for result in plait.wait_all(requests):
        equal(result, 6)
    destroy(halves[:3] + comms)


def what_leaves_a_group_by_an_exception_is_not_begun():
    def body(rank, uid):
        with plait.Comm.create(2, rank, uid) as comm:
            def stop(error):
                with plait.group():
                    comm.barrier()
                    with plait.group():
                        comm.send(numpy.zeros(2), 1 - rank)
                        raise error
            wrong(KeyError, 'stop', lambda: stop(KeyError('stop')))
            with_request = []

            def refused(catch):
                with plait.group():
                    with_request.append(comm.allreduce(numpy.zeros(2), wait=False))
                    try:
                        comm.broadcast(numpy.zeros(2), root=7)
                    except plait.ArgError:
                        if not catch:
                            raise
            for catch in (False, True):
                wrong(plait.ArgError, 'root is 7, but the comm has 2 ranks', lambda: refused(catch))
                wrong(plait.ArgError, 'group was refused', with_request[-1].wait)
            assert comm.stats()['operations'] == 0
            equal(comm.allreduce(numpy.ones(2)), 2)
            with plait.group():
                comm.barrier()
    both(body, nrank=2)


def the_error_of_a_group_has_a_line_for_each_cause():
    a, b = together(2, name='a'), together(2, name='b')
    kept = []

    def differ():
        with plait.group():
            for comms in (a, b):
                for c in comms:
                    x = numpy.zeros(10 + c.rank)
                    kept.append(weakref.ref(x))
                    c.allreduce(x)
                    del x
    try:
        differ()
    except plait.MismatchError as error:
        lines = str(error).split('\n')
        assert len(lines) == 2 and "comm 'a'" in lines[0] and "comm 'b'" in lines[1], lines
    else:
        raise AssertionError('no MismatchError')
    gc.collect()
    assert all(k() is not None for k in kept)
    for comm in a + b:
        wrong(plait.MismatchError, 'count', comm.destroy)
    gc.collect()
    assert all(k() is None for k in kept)


def comms_that_a_group_could_not_make_are_not_there():
    uid, comms = plait.unique_id(), []

    def create():
        with plait.group():
            comms.append(plait.Comm.create(2, 0, uid, timeout=0.2))
            wrong(plait.ArgError, 'its group has not ended', comms[0].barrier)
    wrong(plait.TimeoutError, 'rank 1', create)
    wrong(plait.ArgError, 'there is no comm', comms[0].barrier)


# ---- Comms of comms, and their life ------------------------------------------------------------------------


def parts_and_duplicates_are_comms_of_their_own():
    def body(rank, uid):
        with plait.Comm.create(NRANK, rank, uid, name='whole') as comm:
            part = comm.split(rank // 2, key=-rank)
            with part, comm.duplicate('twin') as twin:
                assert (part.nrank, part.rank, part.name) == (2, (rank + 1) % 2, 'whole')
                assert (twin.nrank, twin.rank, twin.name) == (NRANK, rank, 'twin')
                equal(part.allreduce(numpy.full(9, rank)), (1, 1, 5, 5)[rank])
                equal(twin.allreduce(numpy.full(9, rank)), 6)
            assert comm.split(None if rank else 3) is None or rank == 0
            wrong(plait.ArgError, '-7', lambda: comm.split(-7))
    ranks.good(ranks.processes(NRANK, body))


def survivors_of_a_death_go_on_in_a_smaller_comm():
    def body(rank, uid):
        comm = plait.Comm.create(NRANK, rank, uid)
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        wrong(plait.PeerError, 'rank 1', lambda: comm.allreduce(numpy.zeros(100)))
        wrong(plait.ArgError, 'excluded.0. is %d, which is this rank' % rank, lambda: comm.shrink([rank]))
        with comm.shrink([1], name='rest') as rest:
            assert (rest.nrank, rest.rank, rest.name) == (3, (0, None, 1, 2)[rank], 'rest')
            equal(rest.allreduce(numpy.full(100, rank)), 5)
            wrong(plait.PeerError, 'rank 1', comm.destroy)
    outcomes = ranks.processes(NRANK, body)
    assert isinstance(outcomes.pop(1), ranks.Died)
    ranks.good(outcomes)


def what_is_in_flight_is_revoked():
    def body(rank, uid):
        comm = plait.Comm.create(3, rank, uid)
        if rank < 2:
            request = comm.allreduce(numpy.zeros(1000), wait=False)  # for which rank 2 does not come
            if rank == 0:
                comm.revoke()
            wrong(plait.FailedError, 'revoked', request.wait)
            with comm.shrink([2], abort=True) as rest:
                equal(rest.allreduce(numpy.ones(3)), 2)
        else:
            wrong(plait.FailedError, 'revoked', lambda: comm.recv(numpy.zeros(1), 0))
        wrong(plait.Error, '', comm.destroy)
    for run in (ranks.processes, ranks.threads):
        rest = run(3, body)[:2]
        ranks.good(rest)


def a_finalized_comm_takes_no_calls_and_a_suspended_one_has_no_staging_memory():
    def body(rank, uid):
        with plait.Comm.create(2, rank, uid) as comm:
            request = comm.allreduce(numpy.full(100000, rank), wait=False)
            for _ in range(2):
                equal(comm.allreduce(numpy.full(100000, rank)), 1)
                assert comm.memory()['staging'] > 0
                comm.suspend()
                assert comm.memory()['staging'] == 0 and comm.memory()['control'] > 0
                wrong(plait.ArgError, 'suspended', comm.barrier)
                comm.resume()
            comm.finalize()
            equal(request.wait(), 1)
            wrong(plait.ArgError, 'finalized', comm.barrier)
    ranks.good(ranks.processes(2, body))


def a_comm_is_created_in_the_background():
    def body(rank, uid):
        if rank == 1:
            looked.wait(ranks.LIMIT)
        with plait.Comm.create(2, rank, uid, name='later', background=True) as comm:
            assert (comm.nrank, comm.rank, comm.name) == (2, rank, 'later')
            if rank == 0:
                assert not comm.ready()
                wrong(plait.ArgError, 'not created yet', comm.barrier)
                looked.wait(ranks.LIMIT)
            while not comm.ready():
                time.sleep(0.001)
            equal(comm.allreduce(numpy.ones(3)), 2)
    looked = multiprocessing.get_context('fork').Barrier(2)
    both(body, nrank=2)
    alone = plait.Comm.create(2, 0, plait.unique_id(), timeout=0.2, background=True)
    try:
        while not alone.ready():
            time.sleep(0.001)
    except plait.TimeoutError as error:
        assert 'rank 1' in str(error), error
    else:
        raise AssertionError('a comm of one rank of two')
    alone.destroy()


def waiting_is_counted_for_whom_it_is():
    def body(rank, uid):
        with plait.Comm.create(2, rank, uid) as comm:
            comm.barrier()
            if rank == 1:
                time.sleep(1)
            comm.barrier()
            if rank == 0:
                assert comm.waited(1) > 0 and comm.waited(0) == 0
            wrong(plait.ArgError, 'peer is -1', lambda: comm.waited(-1))
    ranks.good(ranks.processes(2, body))


sentences.run([
    requests_give_the_results_of_the_calls_in_any_order_of_waiting, testing_drives_a_request_to_its_end,
    a_progress_thread_ends_requests_that_nobody_asks_for, wait_any_takes_each_once_and_wait_all_all,
    arrays_live_until_their_request_has_ended, a_request_that_fails_says_so_whenever_it_is_asked,
    an_operator_that_raises_fails_its_request, destroying_a_comm_ends_its_requests,
    persistent_operations_run_again_and_again, persistent_operations_run_in_a_group_and_end_with_it,
    a_late_scale_is_read_when_the_operation_runs, messages_come_in_the_order_in_which_they_were_sent,
    a_message_that_differs_is_named_on_both_ranks, a_group_exchanges_with_everybody_at_once,
    one_thread_holds_all_ranks, what_leaves_a_group_by_an_exception_is_not_begun,
    the_error_of_a_group_has_a_line_for_each_cause, comms_that_a_group_could_not_make_are_not_there,
    parts_and_duplicates_are_comms_of_their_own, survivors_of_a_death_go_on_in_a_smaller_comm,
    what_is_in_flight_is_revoked, a_finalized_comm_takes_no_calls_and_a_suspended_one_has_no_staging_memory,
    a_comm_is_created_in_the_background, waiting_is_counted_for_whom_it_is,
])
