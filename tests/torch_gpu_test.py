#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""plait.torch with tensors of GPUs: on a GPU, or with PLAIT_CUDA_DRIVER on the stand-in for CUDA's driver, which ends a
process that relies on an order which nothing ensures."""
import ctypes
import os
import signal
import tempfile
import threading
import time
import warnings
from datetime import timedelta

import torch
from torch import distributed as dist

import plait
import python_ranks
import sentences
import torch_ranks as ranks
from torch_ranks import equal, wrong

warnings.simplefilter('ignore')  # of deprecated calls
REAL = 'standin' not in os.environ.get('PLAIT_CUDA_DRIVER', '')  # torch.cuda would keep forked ranks from it
if not REAL:
    import torch_standin as gpu
N = 2


def write(values):
    return torch.as_tensor(values).cuda() if REAL else gpu.write(values)


def read(tensor):
    return tensor.cpu() if REAL else gpu.read(tensor)


def outcomes(body, delay='50'):
    """What body(rank) returned or raised on each rank, all on one GPU. delay: the stand-in's, in microseconds."""
    os.environ['PLAIT_STANDIN_DELAY'] = delay

    def on_gpu(rank):
        if not REAL:
            gpu.begin()
        return body(rank)
    with tempfile.NamedTemporaryFile(prefix='plait-world-') as world:
        os.environ['PLAIT_STANDIN_WORLD'] = world.name
        return ranks.outcomes(N, on_gpu)


def good(body, **options):
    return python_ranks.good(outcomes(body, **options))


def values(rank, count=12, dtype=torch.float32):
    return ((torch.arange(count) * 7 + rank * 3) % 5 + 1).to(dtype)


def calls(rank):
    """Name and function(make) of each operation: the tensors that have its results."""
    def tensors(make, *counts):
        return [make(values(rank, count)) for count in counts]

    def all_reduce(make, **options):
        x, = tensors(make, 1000)
        return dist.all_reduce(x, **options), [x]

    def average_in_bfloat16(make, **options):
        x = make(values(rank, 100, torch.bfloat16))
        return dist.all_reduce(x, op=dist.ReduceOp.AVG, **options), [x]

    def reduce(make, **options):
        x, = tensors(make, 10)
        return dist.reduce(x, 1, **options), [x] * (rank == 1)

    def broadcast(make, **options):
        x, = tensors(make, 70000)
        return dist.broadcast(x, 1, **options), [x]

    def all_gather(make, **options):
        x, *out = tensors(make, 5, *[5] * N)
        return dist.all_gather(out, x, **options), out

    def all_gather_of_different_sizes(make, **options):
        x, *out = tensors(make, 5 + rank, *range(5, 5 + N))
        return dist.all_gather(out, x, **options), out

    def all_gather_into_tensor(make, **options):
        x, out = tensors(make, 5, 5 * N)
        return dist.all_gather_into_tensor(out, x, **options), [out]

    def reduce_scatter(make, **options):
        out, *x = tensors(make, 6, *[6] * N)
        return dist.reduce_scatter(out, x, **options), [out]

    def gather(make, **options):
        x, *out = tensors(make, 3, *[3] * N)
        return dist.gather(x, out if rank == 0 else None, 0, **options), out if rank == 0 else []

    def scatter(make, **options):
        out, *x = tensors(make, 3, *[3] * N)
        return dist.scatter(out, x if rank == 0 else None, 0, **options), [out]

    def all_to_all(make, **options):
        halves = tensors(make, *[4] * N), tensors(make, *[4] * N)
        return dist.all_to_all(*halves, **options), halves[0]

    def all_to_all_single(make, **options):
        out, x = tensors(make, 4 * N, 4 * N)
        return dist.all_to_all_single(out, x, **options), [out]
    return [all_reduce, average_in_bfloat16, reduce, broadcast, all_gather, all_gather_of_different_sizes,
            all_gather_into_tensor, reduce_scatter, gather, scatter, all_to_all, all_to_all_single]


def collectives_take_their_place_on_the_current_stream():
    def body(rank):
        for call in calls(rank):
            _, expected = call(torch.clone)
            _, found = call(write)
            for a, b in zip(found, expected):
                equal(read(a), b)
    good(body)


def async_collectives_are_ordered_by_wait():
    def body(rank):
        for call in calls(rank):
            _, expected = call(torch.clone)
            first, found = call(write, async_op=True)
            second, more = call(write, async_op=True)
            assert second.wait() and first.wait()
            assert first.exception() is None
            for a, b in zip(found + more, expected + expected):
                equal(read(a), b)
            dist.barrier()
            assert first.is_completed() and first.is_success() and second.is_success()
    good(body)


def a_future_has_the_result_in_the_order_of_streams():
    def body(rank):
        x = write(values(rank))
        future = dist.all_reduce(x, async_op=True).get_future().then(lambda f: f.value()[0])
        equal(read(future.wait()), values(0) + values(1))
    good(body)


def a_wait_with_a_timeout_lets_the_caller_wait():
    def body(rank):
        x = write(values(rank))
        work = dist.all_reduce(x, async_op=True)
        assert work.wait(timedelta(seconds=30)) and work.is_completed()
        equal(read(x), values(0) + values(1))
    good(body)


def a_rank_may_send_before_it_receives():
    def body(rank):
        for _ in range(3):
            x, y = write(values(rank)), write(torch.zeros(12))
            works = [dist.isend(x, 1 - rank), dist.irecv(y, 1 - rank)]
            for work in works:
                work.wait()
            equal(read(y), values(1 - rank))
        y = write(torch.zeros(12))
        ops = [dist.P2POp(dist.isend, x, 1 - rank), dist.P2POp(dist.irecv, y, 1 - rank)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        equal(read(y), values(1 - rank))
        if rank == 0:
            dist.send(x, 1)
        else:
            dist.recv(y, 0, tag=7)  # NCCL knows no tags
            equal(read(y), values(0))
    good(body)


def a_collective_may_pass_a_message_that_is_received_later():
    def body(rank):
        x, y = write(values(rank)), write(values(rank))
        work = dist.isend(x, 1) if rank == 0 else None
        dist.all_reduce(y)
        if rank == 1:
            dist.recv(x, 0)
        else:
            work.wait()
        equal(read(y), values(0) + values(1))
        equal(read(x), values(0))
    good(body)


def operations_between_start_and_end_of_coalescing_are_one_work():
    def body(rank):
        group, x, y = dist.group.WORLD, write(values(rank)), write(values(rank, 50))
        group.start_coalescing()
        group.allreduce([x])
        group.allreduce([y])
        group.end_coalescing().wait()
        equal(read(x), values(0) + values(1))
        equal(read(y), values(0, 50) + values(1, 50))
        group.allreduce_coalesced([x, y]).wait()
        equal(read(x), 2 * (values(0) + values(1)))
    good(body)


def what_is_not_contiguous_is_packed():
    def body(rank):
        x = write(values(rank).reshape(3, 4))
        dist.all_reduce(x.t())
        equal(read(x), (values(0) + values(1)).reshape(3, 4))
        dist.all_reduce(x.t(), async_op=True).wait()
        equal(read(x), 2 * (values(0) + values(1)).reshape(3, 4))
    good(body)


def memory_that_another_stream_uses_is_not_given_away():
    """Of what the program does not wait for, whose tensors it may free."""
    def body(rank):
        x = write(values(rank))
        dist.all_reduce(x)
        assert not gpu.recorded
        dist.all_reduce(x, async_op=True).wait()
        assert [address for address, _ in gpu.recorded] == [x.data_ptr()]
        assert gpu.recorded[0][1] != gpu.current_stream().cuda_stream
    if not REAL:
        good(body)


def a_message_that_was_not_awaited_holds_up_nothing():
    """It begins with the next collective, or never."""
    def body(rank):
        x = write(values(rank))
        if rank == 0:
            work = dist.isend(x, 1)
            dist.barrier()
            work.wait()
        else:
            dist.barrier()
            dist.recv(x, 0)
        equal(read(x), values(0))
        dist.barrier()
        if rank == 0:
            begin = time.monotonic()
            dist.isend(x, 1)
            dist.group.WORLD.shutdown()
            assert time.monotonic() - begin < ranks.LIMIT / 2
    good(body)


def two_threads_may_ask_for_one_work():
    def body(rank):
        x = write(values(rank))
        work, errors = dist.isend(x, 1) if rank == 0 else dist.irecv(x, 0), []

        def ask():
            try:
                while not work.is_completed():
                    time.sleep(0.001)
                work.wait()
            except Exception as error:  # pylint: disable=broad-except
                errors.append(error)
        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors, errors
        equal(read(x), values(0))
    good(body, delay='20000')


def a_barrier_is_also_one_of_what_is_on_streams():
    def body(rank):
        work = dist.all_reduce(write(values(rank)), async_op=True)
        dist.barrier()
        assert work.is_completed()
    good(body, delay='30000')


def a_wait_tells_that_the_group_has_failed():
    def body(rank):
        work = dist.all_reduce(write(values(rank)), async_op=True)
        work.wait()
        dist.barrier()
        if rank == 1:
            dist.group.WORLD.abort()
            return
        until = time.monotonic() + 30

        def wait():
            while time.monotonic() < until:
                work.wait()
        wrong(plait.FailedError, 'aborted by rank 1', wait)
    good(body)


def fuse_takes_gradients_where_they_are():
    """Of a bucket as DDP has it: this PyTorch may have no models on GPUs."""
    class Bucket:
        def __init__(self, k, flat):
            self.index, self.buffer, self.is_last, self.parameters = (lambda: k), (lambda: flat), (lambda: k == 2), list

    def body(rank):
        from plait._fusion import options_of  # pylint: disable=import-outside-toplevel
        from plait.torch._fuse import Hook  # pylint: disable=import-outside-toplevel
        options, cuts = options_of('avg', 4096, None, 'default', False, False, True, False, 'fuse')
        hook = Hook(dist.group.WORLD, {}, options, cuts)
        flats = [write(torch.zeros(count)) for count in (10, 2000, 30)]
        for step in range(4):
            for flat in flats:
                refill(flat, values(rank, flat.numel()) + step)
            futures = [hook.reduce(None, Bucket(k, flat)) for k, flat in enumerate(flats)]
            for flat, future in zip(flats, futures):
                n = flat.numel()
                equal(read(future.wait()), (values(0, n) + values(1, n)) / 2 + step)
        hook.leave()
    good(body)


def refill(tensor, new):
    if REAL:
        tensor.copy_(new)
    else:
        gpu.refill(tensor, new)


def wrong_use_is_refused():
    def body(rank):
        group, x, y = dist.group.WORLD, write(values(rank)), values(rank)
        wrong(plait.ArgError, r'output\[0\] is on cuda:0, but output\[1\] is on cpu; they must be on one device',
              lambda: group.allgather([[x, y]], [x]))
        wrong(plait.ArgError, 'allgather: its tensors are on .*; they must be on one device',
              lambda: group.allgather([[x, x]], [y]))
        wrong(plait.ArgError, 'op is a function of the host, BAND, but the tensor is on cuda:0; move it with',
              lambda: dist.all_reduce(write(values(rank, 3, torch.int32)), op=dist.ReduceOp.BAND))
        dist.all_reduce(x)
        equal(read(x), values(0) + values(1))
    good(body)


def a_rank_with_a_tensor_of_the_host_is_named():
    def body(rank):
        dist.all_reduce(write(values(rank)))
        try:
            x = values(rank) if rank == 0 else write(values(rank))
            dist.all_reduce(x)
            dist.all_reduce(x)
            raise AssertionError('no error')
        except plait.Error as error:
            return str(error)
    for text in good(body):
        assert 'memory is ' in text and "the host's on rank 0" in text and "a GPU's on rank 1" in text, text


def a_rank_that_dies_is_named_and_holds_no_stream():
    def body(rank):
        x = write(values(rank))
        dist.all_reduce(x)
        read(x)
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if not REAL:
            ctypes.CDLL(os.environ['PLAIT_CUDA_DRIVER']).standin_careless(1)
        wrong(plait.PeerError, 'rank 1 .*died', lambda: [dist.all_reduce(x) for _ in range(1000)])
        read(x)
        return 'told'
    assert outcomes(body)[0] == 'told'


sentences.run([
    collectives_take_their_place_on_the_current_stream, async_collectives_are_ordered_by_wait,
    a_future_has_the_result_in_the_order_of_streams, a_wait_with_a_timeout_lets_the_caller_wait,
    a_rank_may_send_before_it_receives, a_collective_may_pass_a_message_that_is_received_later,
    operations_between_start_and_end_of_coalescing_are_one_work, what_is_not_contiguous_is_packed,
    memory_that_another_stream_uses_is_not_given_away, a_message_that_was_not_awaited_holds_up_nothing,
    two_threads_may_ask_for_one_work, a_barrier_is_also_one_of_what_is_on_streams, a_wait_tells_that_the_group_has_failed,
    fuse_takes_gradients_where_they_are, wrong_use_is_refused, a_rank_with_a_tensor_of_the_host_is_named,
    a_rank_that_dies_is_named_and_holds_no_stream,
])
