#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""plait.torch: wrong arguments, ranks that differ, die, are late or abort; each error names what and who."""
import datetime
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading

import torch
from torch import distributed as dist
from torch.distributed import ReduceOp

import plait
import sentences
import torch_ranks as ranks
from torch_ranks import equal, good, outcomes, wrong

FULL = os.environ.get('PLAIT_TEST_TIER') == 'full'


def wrong_arguments_are_named_and_change_nothing():
    def body(rank):
        group, x, product = dist.group.WORLD, torch.full((4,), 2.0), dist.distributed_c10d.AllreduceCoalescedOptions()
        product.reduceOp = ReduceOp.PRODUCT
        for text, call in (
                (r'layout torch.sparse_coo; use .to_dense', lambda: dist.broadcast(torch.eye(2).to_sparse(), 0)),
                (r'op is MAX, but a sparse tensor has SUM', lambda: dist.all_reduce(torch.eye(2).to_sparse(),
                                                                                    ReduceOp.MAX)),
                (r'dtype torch.quint8; it must be one of float32', lambda: group.broadcast(
                    [torch.quantize_per_tensor(x, 1.0, 0, torch.quint8)])),
                (r'op is PRODUCT, but torch.complex64 has SUM, AVG',
                 lambda: group.allreduce([x + 0j], ReduceOp.PRODUCT)),
                (r'op is SUM, but torch.int16 has no operators', lambda: dist.all_reduce(x.short())),
                (r'op is BAND, but torch.float32 has SUM', lambda: dist.all_reduce(x, ReduceOp.BAND)),
                (r'tensors has 2 entries; it must have 1', lambda: group.allreduce([x, x])),
                (r'outputs has 3 tensors; it must have 2, one for each rank', lambda: dist.all_gather([x, x, x], x)),
                (r'output has 8 elements, but with this input it must have 6',
                 lambda: dist.all_gather_into_tensor(torch.zeros(8), torch.zeros(3))),
                (r'input has 4 elements, but with this output it must have 8',
                 lambda: dist.reduce_scatter_tensor(x, x)),
                (r'output has dtype torch.int32, but input has torch.float32',
                 lambda: group.all_gather_single(torch.zeros(8, dtype=torch.int32), x)),
                (r'input\[0\] has dtype torch.float32, but input\[1\] has torch.float64',
                 lambda: group.reduce_scatter([x], [[x, x.double()]])),
                (r'input has shape \(3,\); its first dimension must be a multiple of 2, or give input_split_sizes',
                 lambda: dist.all_to_all_single(torch.zeros(3), torch.zeros(3))),
                (r'input_split_sizes is \[1, 1\]; it must be 2 numbers of 0 or more whose sum is 4',
                 lambda: dist.all_to_all_single(x, x, [2, 2], [1, 1])),
                (r'src is None, but messages are received from a given rank', lambda: dist.recv(x)),
                (r'op is PRODUCT, but torch.complex64 has SUM, AVG',
                 lambda: group.allreduce_coalesced([x, x + 0j], product)),
                (r'tensors\[0\] has elements that share memory', lambda: dist.all_reduce(x[:1].expand(4))),
                (r'inputs has 0 entries', lambda: group.reduce_scatter([x], [])),
                (r'root is 2', lambda: group.broadcast([x], 2)),
                (r'root is -1, but', lambda: group.broadcast([x], -1)),
                (r'dst is -1, but', lambda: group.send([x], -1)),
                (r'\b5\b', lambda: group.send([x], 5)),
                (r'of type int; it must be a tensor', lambda: group.allreduce([3]))):
            wrong((plait.ArgError, plait.UnsupportedError), text, call)
        dist.all_reduce(x)
        equal(x, 4)
    good(2, body)


def tensors_of_other_devices_are_refused_by_every_operation():
    def body(_rank):
        group, x, y = dist.group.WORLD, torch.ones(2), torch.ones(2, device='meta')  # a device that is everywhere
        for call in (lambda: group.allreduce([y]), lambda: group.allreduce_coalesced([x, y]),
                     lambda: group.reduce([y], 0), lambda: group.broadcast([y], 0),
                     lambda: group.allgather([[x, y]], [x]), lambda: group.allgather([[x, x]], [y]),
                     lambda: group.all_gather_single(torch.ones(4), y),
                     lambda: group.reduce_scatter([y], [[x, x]]), lambda: group.reduce_scatter_single(x, y),
                     lambda: group.gather([[x, x]], [y]), lambda: group.scatter([y], [[x, x]]),
                     lambda: group.all_to_all_single(x, y), lambda: group.alltoall([x, x], [x, y]),
                     lambda: group.send([y], 0), lambda: group.recv([y], 0)):
            wrong(plait.ArgError, r'is on meta; the backend plait takes tensors of the CPU and of CUDA: move it with '
                  r'.cpu\(\), or give such tensors a group of another backend: new_group\(backend=...\)', call)
        dist.barrier()
    good(2, body)


def errors_travel_between_processes():
    """Pickled, as multiprocessing does."""
    for error in outcomes(2, lambda rank: dist.all_reduce(torch.ones(10 + rank))):
        assert isinstance(error, (plait.MismatchError, plait.FailedError)), error
        assert isinstance(error, RuntimeError) and 'count' in str(error), error


def settings_of_other_backends_are_refused():
    def body(_rank):
        wrong(plait.ArgError, 'pg_options is given, but the backend plait has none',
              lambda: dist.new_group(pg_options=3))
    good(1, body)


def a_timeout_may_be_very_long_but_not_zero():
    def body(_rank):
        for timeout in (datetime.timedelta(days=30), datetime.timedelta.max):
            group = dist.new_group(timeout=timeout)
            dist.all_reduce(torch.ones(1), group=group, async_op=True).wait(datetime.timedelta.max)
        wrong(plait.ArgError, 'timeout= is 0 s; it must be more than 0',
              lambda: dist.new_group(timeout=datetime.timedelta(0)))
    good(1, body)


def ranks_that_differ_are_told_by_wait_and_future():
    def body(rank):
        work = dist.all_reduce(torch.ones(10 + rank), async_op=True)
        future = work.get_future()
        wrong((plait.MismatchError, plait.FailedError), 'count', work.wait)
        ranks.ranks.wrong(RuntimeError, '(Mismatch|Failed)Error.*count', future.wait)
        assert work.is_completed() and not work.is_success() and isinstance(work.exception(), RuntimeError)
        wrong((plait.MismatchError, plait.FailedError), 'count', lambda: dist.all_reduce(torch.ones(3)))
    good(2, body)


def a_tag_out_of_order_is_named():
    def body(rank):
        x = torch.ones(3)
        if rank == 0:
            dist.send(x, 1, tag=7)
        else:
            wrong(plait.ArgError, 'tag is 8, but the next message from rank 0 has tag 7',
                  lambda: dist.recv(x, 0, tag=8))
        dist.all_reduce(x)
    good(2, body)


def a_tag_of_one_side_only_is_named():
    def body(rank):
        x = torch.ones(3)
        text = 'rank 0 sent with a tag, this recv of rank 1 has none' if sent else \
            'rank 0 sent with no tag, this recv of rank 1 has one'
        if rank == 1:
            wrong(plait.MismatchError, text, lambda: dist.recv(x, 0, tag=received))
        else:
            ranks.ranks.wrong(RuntimeError, text, lambda: [dist.send(x, 1, tag=sent), dist.all_reduce(x)])
    for sent, received in ((5, 0), (0, 5)):
        good(2, body)


def a_rank_that_dies_is_named():
    def body(rank):
        dist.barrier()
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        x = torch.ones(100000)
        wrong((plait.PeerError, plait.FailedError), 'rank 1', lambda: [dist.all_reduce(x) for _ in range(1000)])
        return 'told'
    result = outcomes(3, body)
    assert result[0] == result[2] == 'told', result


def a_late_rank_is_named_after_the_timeout():
    def body(rank):
        dist.barrier()  # both come to the group within its timeout
        group = dist.new_group(timeout=datetime.timedelta(seconds=2))
        opts = dist.distributed_c10d.AllreduceOptions()
        opts.timeout = datetime.timedelta(seconds=0.5)
        store = dist.distributed_c10d._get_default_store()
        if rank == 0:
            wrong(plait.TimeoutError, 'rank 1', lambda: group.monitored_barrier())
            wrong(plait.TimeoutError, 'rank 1', lambda: dist.group.WORLD.allreduce([torch.ones(3)], opts).wait())
            store.set('told', '')
        else:
            store.wait(['told'], datetime.timedelta(seconds=ranks.LIMIT))
        wrong(plait.Error, 'rank 1', lambda: dist.barrier(group=group))
    good(2, body)


def wait_may_have_a_timeout_and_the_operation_goes_on():
    def body(rank):
        x, store = torch.ones(3), dist.distributed_c10d._get_default_store()
        if rank == 0:
            work = dist.all_reduce(x, async_op=True)
            wrong(plait.TimeoutError, r'wait\(\) has waited its timeout of 0.2 s. The operation goes on',
                  lambda: work.wait(datetime.timedelta(seconds=0.2)))
            assert not work.is_completed()
            store.set('go', '')
            work.wait()
        else:
            store.wait(['go'], datetime.timedelta(seconds=ranks.LIMIT))
            dist.all_reduce(x)
        equal(x, 2)
    good(2, body)


def abort_ends_a_waiting_operation_on_every_rank():
    def body(rank):
        store = dist.distributed_c10d._get_default_store()
        work = dist.all_reduce(torch.ones(3), async_op=True) if rank == 0 else dist.irecv(torch.ones(3), 0)
        store.set(f'rank {rank} waits', '')
        if rank == 1:
            store.wait(['rank 0 waits'], datetime.timedelta(seconds=ranks.LIMIT))
            threading.Timer(0.1, dist.group.WORLD.abort).start()
        wrong(plait.Error, r'abort\(\) on rank 1', work.wait)
    good(2, body)


def a_rank_with_another_backend_is_named():
    def body(rank, _uid):
        if rank != other:
            wrong(plait.TimeoutError, rf'rank {other}.* has not come after 1 s .*another backend; .*backend="plait"',
                  lambda: ranks.begin(folder, rank, 2, timeout=1))
        else:
            try:
                ranks.begin(folder, rank, 2, timeout=2, backend='gloo')
            except RuntimeError:
                return 'no group'
    for other in (0, 1):
        with tempfile.TemporaryDirectory() as folder:
            assert ranks.ranks.good(ranks.ranks.processes(2, body))[other] == 'no group'


def a_rank_that_does_not_come_is_named_on_all():
    def body(rank, _uid):
        if rank != 2:
            here.wait()
            wrong(plait.TimeoutError, 'rank 2 of 4 has not come after 2 s',
                  lambda: ranks.begin(folder, rank, 4, timeout=2))
    here = multiprocessing.get_context('fork').Barrier(3)
    with tempfile.TemporaryDirectory() as folder:
        ranks.ranks.good(ranks.ranks.processes(4, body))


def backward_of_ddp_raises_the_error_of_its_reduction():
    def body(rank):
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(30, 30))
        dist.barrier()
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        loss = model(torch.ones(2, 30)).sum()
        try:
            loss.backward()
        except RuntimeError as error:
            assert 'rank 1' in str(error), error
            return 'told'
    assert outcomes(2, body)[0] == 'told'


SCRIPT = '''
import sys, torch
sys.path.insert(0, sys.argv[1])
import torch_ranks
torch_ranks.begin(sys.argv[2], int(sys.argv[3]), 2)
x = torch.ones(1 << 20)
torch.distributed.all_reduce(x)
if sys.argv[3] == '1':
    raise ValueError('no such file')
torch.distributed.all_reduce(x)
'''


def an_exception_that_ends_a_script_is_told_to_the_others():
    with tempfile.TemporaryDirectory() as folder:
        started = [subprocess.Popen([sys.executable, '-c', SCRIPT, os.path.dirname(__file__), folder, str(rank)],
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for rank in range(2)]
        said = [process.communicate(timeout=2 * ranks.LIMIT)[0] for process in started]
    assert [process.returncode for process in started] == [1, 1], said
    assert 'rank 1: ValueError: no such file' in said[0], said


def an_exception_that_ends_a_child_is_told_to_the_others():
    def child(rank):
        sys.stderr = open(os.devnull, 'w', encoding='utf-8')
        ranks.begin(folder, rank, 2)
        if rank == 1:
            raise ValueError('no such file')
        wrong(plait.Error, 'rank 1: ValueError: no such file', lambda: dist.all_reduce(torch.ones(3)))
    with tempfile.TemporaryDirectory() as folder:
        children = [multiprocessing.get_context('fork').Process(target=child, args=(rank,)) for rank in range(2)]
        for each in children:
            each.start()
        for each in children:
            each.join(2 * ranks.LIMIT)
        assert [each.exitcode for each in children] == [0, 1]


def an_exception_that_becomes_an_exit_status_is_told_to_the_others():
    def child(rank):
        ranks.begin(folder, rank, 2)
        x = torch.ones(3)
        if rank == 1:
            awaited = dist.irecv(x, 0)
            try:
                raise ValueError('no such file')
            except ValueError:
                sys.exit(1)  # as torch.multiprocessing does
        wrong(plait.Error, 'rank 1: ValueError: no such file', lambda: dist.all_reduce(x))
    with tempfile.TemporaryDirectory() as folder:
        children = [multiprocessing.get_context('fork').Process(target=child, args=(rank,)) for rank in range(2)]
        for each in children:
            each.start()
        for each in children:
            each.join(ranks.LIMIT // 2)  # well before the group's timeout
        exits = [each.exitcode for each in children]
        for each in children:
            each.kill()
        assert exits == [0, 1], exits


def an_exception_before_destroy_is_told_to_the_others():
    def body(rank):
        if rank == 1:
            raise ValueError('no such file')
        wrong(plait.Error, 'rank 1: ValueError: no such file', lambda: dist.all_reduce(torch.ones(3)))
        return 'told'
    assert outcomes(2, body)[0] == 'told'


def destroy_does_not_wait_for_a_message_that_nobody_sends():
    def body(rank):
        x = torch.ones(3)
        work = dist.irecv(x, 1 - rank)
        ended = threading.Timer(ranks.LIMIT // 2, os._exit, [3])  # well before the group's timeout
        ended.start()
        dist.destroy_process_group()
        del work  # with PyTorch 1.13 the group ends here
        ended.cancel()
        ranks.begin(folder, rank, 2, name='next')
    with tempfile.TemporaryDirectory() as folder:
        good(2, body)


sentences.run([
    errors_travel_between_processes,
    wrong_arguments_are_named_and_change_nothing, tensors_of_other_devices_are_refused_by_every_operation,
    settings_of_other_backends_are_refused, a_timeout_may_be_very_long_but_not_zero,
    ranks_that_differ_are_told_by_wait_and_future,
    a_tag_out_of_order_is_named, a_tag_of_one_side_only_is_named, a_rank_that_dies_is_named,
    a_late_rank_is_named_after_the_timeout, wait_may_have_a_timeout_and_the_operation_goes_on,
    abort_ends_a_waiting_operation_on_every_rank, a_rank_with_another_backend_is_named,
    a_rank_that_does_not_come_is_named_on_all, backward_of_ddp_raises_the_error_of_its_reduction,
    an_exception_that_ends_a_child_is_told_to_the_others,
    an_exception_that_becomes_an_exit_status_is_told_to_the_others, an_exception_before_destroy_is_told_to_the_others,
    destroy_does_not_wait_for_a_message_that_nobody_sends,
] + FULL * [an_exception_that_ends_a_script_is_told_to_the_others])
