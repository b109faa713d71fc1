#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""plait.torch: every operation of torch.distributed over every dtype, beside Gloo and against computed results."""
import datetime
import functools
import operator
import sys
import threading
import time
import warnings
import weakref

import numpy
import torch
from torch import distributed as dist
from torch.distributed import ReduceOp

import plait
import sentences
import torch_ranks as ranks
from plait.torch._rendezvous import meet
from plait.torch._work import Lane
from torch_ranks import equal, good, wrong

warnings.simplefilter('ignore')  # of deprecated calls, which must work, too
N = 4
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.uint8, torch.int32, torch.int64]
COMPLEX = [torch.complex64, torch.complex128]
ALL = FLOATS + INTEGERS + COMPLEX + [torch.bool, torch.int16]


def value(rank, count, dtype, seed=0):
    """Of a rank: small numbers, so that sums are exact."""
    x = (torch.arange(count) * 7 + rank * 3 + seed) % 5 + 1
    if dtype == torch.bool:
        return x > 3
    return (x + 1j * (rank + 1)).to(dtype) if dtype.is_complex else x.to(dtype)


COMBINED = {  # operator: dtypes, and the function of all ranks' values
    'SUM': (FLOATS + INTEGERS + COMPLEX, operator.add), 'PRODUCT': (FLOATS + INTEGERS, operator.mul),
    'MIN': (FLOATS + INTEGERS, torch.minimum), 'MAX': (FLOATS + INTEGERS, torch.maximum),
    'BAND': (INTEGERS + [torch.bool], operator.and_), 'BOR': (INTEGERS + [torch.bool], operator.or_),
    'BXOR': (INTEGERS + [torch.bool], operator.xor),
}


def combined(op, count, dtype, nrank=N):
    values = [value(r, count, dtype) for r in range(nrank)]
    return functools.reduce(COMBINED[op][1], values)


def reductions_agree_with_computed_results_for_every_dtype_and_operator():
    def body(rank):
        for op, (dtypes, _) in COMBINED.items():
            which = getattr(ReduceOp, op)
            for dtype in dtypes:
                if dtype.is_complex and op != 'SUM':
                    continue
                x = value(rank, 12, dtype)
                dist.all_reduce(x, which)
                equal(x, combined(op, 12, dtype))
                x = value(rank, 12, dtype)
                dist.reduce(x, 2, which)
                equal(x, combined(op, 12, dtype) if rank == 2 else value(rank, 12, dtype))
                y, mine = torch.zeros(3, dtype=dtype), combined(op, 12, dtype)[3 * rank:3 * rank + 3]
                dist.reduce_scatter(y, list(value(rank, 12, dtype).chunk(N)), which)
                equal(y, mine)
                y.zero_()
                dist.reduce_scatter_tensor(y, value(rank, 12, dtype), which)
                equal(y, mine)
                xs = [value(rank, 12, dtype), value(rank, 12, dtype)[:5].clone()]
                dist.all_reduce_coalesced(xs, which)
                equal(xs[0], combined(op, 12, dtype))
                equal(xs[1], combined(op, 12, dtype)[:5])
    good(N, body)


def averages_and_truth_values_are_reduced():
    def body(rank):
        for dtype in FLOATS + INTEGERS + COMPLEX:
            x = torch.full((3,), 2 * rank + 1).to(dtype)  # 1 + 3 + 5 + 7 = 16
            work = dist.group.WORLD.allreduce([x], ReduceOp.AVG)
            work.wait()
            equal(x, 4)
        truth = torch.tensor([rank == 1, True, False])
        for op, expected in (('SUM', [True, True, False]), ('MAX', [True, True, False]),
                             ('PRODUCT', [False, True, False]), ('MIN', [False, True, False])):
            x = truth.clone()
            dist.all_reduce(x, getattr(ReduceOp, op))
            equal(x, expected)
    good(N, body)


def a_factor_comes_before_the_sum():
    from torch._C._distributed_c10d import _make_nccl_premul_sum

    def body(rank):
        for dtype in (torch.float32, torch.bfloat16, torch.complex64):
            for factor in (rank + 1.0, torch.tensor([rank + 1.0])):
                x = torch.full((5,), 2.0).to(dtype)
                work = dist.group.WORLD.allreduce([x], _make_nccl_premul_sum(factor))
                work.wait()
                equal(x, 20)
        wrong(plait.ArgError, 'op is PREMUL_SUM, but torch.int32 has SUM',
              lambda: dist.all_reduce(torch.ones(2).int(), _make_nccl_premul_sum(2.0)))

    def old(_rank):
        wrong(plait.UnsupportedError, 'PREMUL_SUM, whose factor PyTorch 1.* does not show',
              lambda: dist.all_reduce(torch.ones(2), _make_nccl_premul_sum(2.0)))
    good(N, body if ranks.NEW else old)


def data_moves_in_every_dtype():
    def body(rank):
        for dtype in ALL:
            every = [value(r, 6, dtype) for r in range(N)]
            x = value(rank, 6, dtype)
            dist.broadcast(x, 1)
            equal(x, every[1])
            xs = [torch.zeros(6, dtype=dtype) for _ in range(N)]
            dist.all_gather(xs, value(rank, 6, dtype))
            for r in range(N):
                equal(xs[r], every[r])
            whole = torch.zeros(6 * N, dtype=dtype)
            dist.all_gather_into_tensor(whole, value(rank, 6, dtype))
            equal(whole, torch.cat(every))
            xs = [torch.zeros(6, dtype=dtype) for _ in range(N)] if rank == 3 else None
            dist.gather(value(rank, 6, dtype), xs, dst=3)
            for r in range(N if xs else 0):
                equal(xs[r], every[r])
            y = torch.zeros(6, dtype=dtype)
            dist.scatter(y, every if rank == 2 else None, src=2)
            equal(y, every[rank])
            whole = torch.zeros(4 * N, dtype=dtype)
            dist.all_to_all_single(whole, value(rank, 4 * N, dtype))
            equal(whole, torch.cat([value(r, 4 * N, dtype).chunk(N)[rank] for r in range(N)]))
            x, y = value(rank, 6, dtype), torch.zeros(6, dtype=dtype)
            work = dist.isend(x, (rank + 1) % N)
            dist.recv(y, (rank - 1) % N)
            work.wait()
            equal(y, every[rank - 1])
    good(N, body)


def sparse_tensors_are_summed():
    def body(rank):
        torch.manual_seed(rank)
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32):
            for count, row in ((0, ()), (rank, ()), (3, ()), (2 * rank, (3,))):
                x = torch.sparse_coo_tensor(torch.randint(0, 4, (2, count)),
                                            torch.randint(1, 5, (count, *row)).to(dtype), (4, 5, *row))
                expected = x.to_dense().clone()
                dist.all_reduce(expected)
                dist.all_reduce(x)
                equal(x.to_dense(), expected)
        future = dist.all_reduce(x, async_op=True).get_future()
        equal(future.wait()[0].to_dense(), N * expected)
    good(N, body)


def what_gloo_does_is_done_alike():
    """Each call on both; a call that Gloo refuses need not work."""
    def body(rank):
        gloo = dist.new_group(backend='gloo')
        done = 0
        for dtype in ALL:
            for call in calls(rank, dtype):
                theirs = attempt(call, gloo)
                if theirs is not None:
                    done += 1
                    for a, b in zip(call(dist.group.WORLD), theirs):
                        assert torch.equal(a, b), f'{dtype}: {a}, Gloo has {b}'
        assert done > 60, done
    good(2, body)


def attempt(call, group):
    try:
        return call(group)
    except (RuntimeError, ValueError):
        return None


def calls(rank, dtype, nrank=2):
    """Functions of a group, each with the tensors that it results in."""
    def reduces(op, group):
        x, y = value(rank, 8, dtype), value(rank, 8, dtype)
        dist.all_reduce(x, op, group=group)
        dist.reduce(y, 0, op, group=group)
        return [x, y] if rank == 0 else [x]

    def scatters(op, group):
        z = torch.zeros(4, dtype=dtype)
        dist.reduce_scatter(z, list(value(rank, 8, dtype).chunk(2)), op, group=group)
        return [z]

    def moves(group):
        x, xs = value(rank, 3, dtype), [torch.zeros(3, dtype=dtype) for _ in range(nrank)]
        dist.all_gather(xs, x, group=group)
        dist.broadcast(x, 1, group=group)
        return xs + [x]

    def rooted(group):
        xs = [torch.zeros(2, dtype=dtype) for _ in range(nrank)] if rank == 1 else []
        dist.gather(value(rank, 2, dtype), xs, dst=1, group=group)
        y = torch.zeros(2, dtype=dtype)
        dist.scatter(y, [value(r, 2, dtype) for r in range(nrank)] if rank == 0 else [], src=0, group=group)
        return xs + [y]

    def exchange(group):
        y = torch.zeros(4 if rank == 0 else 2, 2, dtype=dtype)
        x = value(rank, 6, dtype).view(3, 2)
        dist.all_to_all_single(y, x, [2, 2] if rank == 0 else [1, 1], [2, 1], group=group)
        return [y]

    def messages(group):
        y = torch.zeros(3, dtype=dtype)
        if rank == 0:
            dist.send(value(0, 3, dtype), 1, group=group, tag=7)
        else:
            dist.recv(y, 0, group=group, tag=7)
        return [y]

    for op in ('SUM', 'PRODUCT', 'MIN', 'MAX', 'BAND', 'BOR', 'BXOR'):
        yield functools.partial(reduces, getattr(ReduceOp, op))
        yield functools.partial(scatters, getattr(ReduceOp, op))
    yield from (moves, rooted, exchange, messages)


def tensors_that_are_not_in_one_piece_are_packed():
    def body(rank):
        x = value(rank, 24, torch.float32).view(4, 6)
        for view in (lambda t: t.t(), lambda t: t[:, 1:5:2], lambda t: t[1], lambda t: t[:, 0]):
            t = x.clone()
            dist.all_reduce(view(t))
            expected = x.clone()
            view(expected).copy_(view(combined('SUM', 24, torch.float32).view(4, 6)))
            equal(t, expected)
        image = torch.full((2, 3, 4, 4), rank + 1.0).to(memory_format=torch.channels_last)
        dist.all_reduce(image)
        equal(image, 10)
        whole = torch.zeros(N, 3)
        dist.all_gather(list(whole), torch.full((3,), rank + 1.0))  # one behind the other: nothing is copied
        equal(whole, torch.arange(1.0, N + 1).view(N, 1).expand(N, 3))
        columns = torch.zeros(3, N)
        dist.all_gather(list(columns.t()), torch.full((3,), rank + 1.0))
        equal(columns, whole.t())
        conjugate = torch.full((2,), 1 + 1j * (rank + 1)).conj()
        dist.group.WORLD.allreduce([conjugate]).wait()
        equal(conjugate, N - 10j)
        for empty in (torch.empty(0), torch.empty(0, 5), torch.empty(2, 0).t()):
            dist.all_reduce(empty)
        scalar = torch.tensor(float(rank))
        dist.all_reduce(scalar)
        equal(scalar, 6)
        leaf = torch.ones(3, 2, requires_grad=True)
        dist.all_reduce(leaf)
        dist.broadcast(leaf.t(), 0)
        equal(leaf.detach(), N)
    good(N, body)


def parts_may_differ_in_size():
    def body(rank):
        counts = [3, 0, 5, 1]
        xs = [torch.zeros(c) for c in counts]
        dist.group.WORLD.allgather([xs], [torch.full((counts[rank],), rank + 1.0)]).wait()
        for r, c in enumerate(counts):
            equal(xs[r], torch.full((c,), r + 1.0))
        y = torch.zeros(counts[rank])
        dist.group.WORLD.reduce_scatter([y], [[torch.full((c,), r + 1.0) for r, c in enumerate(counts)]]).wait()
        equal(y, torch.full((counts[rank],), N * (rank + 1.0)))
        sent = [(rank + r) % 3 for r in range(N)]  # to r; from r comes what r sends
        got = torch.zeros(sum(sent), 2)
        dist.all_to_all_single(got, torch.full((sum(sent), 2), float(rank)), sent, sent)
        equal(got, torch.cat([torch.full((s, 2), float(r)) for r, s in enumerate(sent)]))
        outs = [torch.zeros(s) for s in sent]
        dist.all_to_all(outs, [torch.full((s,), float(10 * rank + r)) for r, s in enumerate(sent)])
        for r in range(N):
            equal(outs[r], torch.full((sent[r],), 10.0 * r + rank))
    good(N, body)


def several_tensors_go_in_one_call():
    def body(rank):
        xs, group = [torch.full((k + 1,), rank + 1.0) for k in range(3)], dist.group.WORLD
        rows = [[torch.zeros(k + 1) for k in range(3)] for _ in range(N)]
        dist.all_gather_coalesced(rows, xs)
        for r in range(N):
            for k in range(3):
                equal(rows[r][k], torch.full((k + 1,), r + 1.0))
        wholes = [torch.zeros(N * (k + 1)) for k in range(3)]
        group.allgather_into_tensor_coalesced(wholes, xs).wait()
        equal(wholes[1], torch.arange(1.0, N + 1).repeat_interleave(2))
        dist.all_reduce_coalesced([xs[1], xs[1], torch.empty(0)])  # one of them twice
        equal(xs[1], N * (N + 1) / 2)
        sums = [torch.zeros(k + 1) for k in range(3)]
        group.reduce_scatter_tensor_coalesced(sums, wholes).wait()
        equal(sums[2], N * (rank + 1.0))
        group._start_coalescing()
        ys = [torch.ones(2), torch.ones(3)]
        for y in ys:
            group.allreduce([y])
        group._end_coalescing().wait()
        for y in ys:
            equal(y, N)
        if rank == 0:  # it tells whether all have ended without waiting for that
            group._start_coalescing()
            group.recv([ys[0]], 1)
            work = group._end_coalescing()
            assert not work.is_completed()
        dist.barrier()
        if rank == 1:
            dist.send(ys[0] + 1, 0)
        elif rank == 0:
            while not work.is_completed():
                time.sleep(0.001)
            equal(ys[0], N + 1)
        right, left = torch.full((4,), float(rank)), torch.zeros(4)
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, right, (rank + 1) % N),
                                        dist.P2POp(dist.irecv, left, (rank - 1) % N)])
        for work in works:
            work.wait()
        equal(left, float((rank - 1) % N))
    good(N, body)


def works_end_in_any_order_of_waiting():
    def body(rank):
        xs = [torch.full((50000,), rank + 1.0 + k) for k in range(6)]
        works = [dist.all_reduce(x, async_op=True) for x in xs]
        works.append(dist.barrier(async_op=True))
        dist.barrier()
        for k in reversed(range(6)):
            assert works[k].wait() is True and works[k].wait() is True
            assert works[k].is_completed() and works[k].is_success() and works[k].exception() is None
            equal(xs[k], 10.0 + 4 * k)
            assert works[k].result() == [xs[k]]
        assert works[6].wait(datetime.timedelta(seconds=ranks.LIMIT))
        for _ in range(1100):  # nobody waits for these
            dist.all_reduce(torch.ones(10), async_op=True)
        x = torch.ones(3)
        dist.all_reduce(x, async_op=True)
        while dist.group.WORLD._pending:
            time.sleep(0.001)
        equal(x, N)
    good(N, body)


def a_message_that_is_awaited_keeps_no_tensors_of_later_operations():
    def body(rank):
        late = dist.irecv(torch.zeros(1), 1) if rank == 0 else None
        told = dist.all_reduce(torch.ones(2), async_op=True)
        alive = []
        for _ in range(20):
            x = torch.ones(8)
            alive.append(weakref.ref(x))
            dist.all_reduce(x)
            work = dist.all_reduce(x, async_op=True)
            work.get_future().wait()
        del x, work
        while len(dist.group.WORLD._pending) > (rank == 0):
            time.sleep(0.001)
        dist.barrier()  # the thread that completes is past the last one
        assert sum(ref() is not None for ref in alive) <= 2  # the latest of each thread
        equal(told.get_future().wait()[0], 2)
        equal(told.result()[0], 2)
        if rank == 0:
            late.wait()
        else:
            dist.send(torch.zeros(1), 0)
    good(2, body)


def threads_that_need_a_lane_at_once_start_one_thread():
    class Done:
        def finish(self):
            pass

    def put():
        together.wait()
        lane.put(Done())
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(30):
            lane, together = Lane(), threading.Barrier(4)
            threads = [threading.Thread(target=put) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            lane.end()
            lane._thread.join()
            assert not [thread for thread in threading.enumerate() if thread.name == 'plait.torch']
    finally:
        sys.setswitchinterval(interval)


def futures_have_the_results_and_run_callbacks():
    def body(rank):
        x, got = torch.ones(1000), []
        future = dist.all_reduce(x, async_op=True).get_future()
        then = future.then(lambda f: f.value()[0] * 2)
        equal(then.wait(), 2 * N)
        assert future.wait() == [x] and future.done()
        work = dist.broadcast(x, 0, async_op=True)
        work.wait()
        assert work.get_future().wait() == [x] and work.get_future() is work.get_future()
        ys = [torch.zeros(2) for _ in range(N)]
        gathered = dist.all_gather(ys, torch.full((2,), float(rank)), async_op=True)
        extended = gathered.get_future().then(lambda f: got.extend(f.value()))
        dist.all_reduce(x, async_op=True).get_future().wait()
        extended.wait()
        for r in range(N):
            equal(got[r], float(r))
        whole = torch.zeros(2 * N)
        equal(dist.all_gather_into_tensor(whole, ys[rank], async_op=True).get_future().wait(), whole)
        def again(first):  # as PowerSGD's hook does
            return dist.all_reduce(first.value()[0], async_op=True).get_future().wait()[0]
        y = torch.ones(5)
        future = dist.all_reduce(y, async_op=True).get_future().then(again)
        equal(future.wait(), N * N)
        late = torch.zeros(3)  # a message does not hold up the futures of collectives
        if rank == 0:
            message = dist.irecv(late, 1).get_future()
            dist.all_reduce(torch.ones(1), async_op=True).get_future().wait()
            message.wait()
            equal(late, 5)
        else:
            dist.all_reduce(torch.ones(1), async_op=True).get_future().wait()
            if rank == 1:
                dist.send(torch.full((3,), 5.0), 0)
    good(N, body)


def results_reach_tensors_of_inference_mode():
    """From the lane's thread, which is not in it."""
    def body(_rank):
        with torch.inference_mode():
            x = torch.ones(2, 3).t()
        dist.all_reduce(x, async_op=True).get_future().wait()
        equal(x, 2)
    good(2, body)


def operations_go_on_without_the_rank():
    """Rank 1 does not wait before rank 0 has the result."""
    def body(rank):
        x, store = torch.ones(1 << 20), dist.distributed_c10d._get_default_store()
        work = dist.all_reduce(x, async_op=True)
        if rank == 0:
            work.wait()
            store.set('rank 0 has it', '')
        else:
            store.wait(['rank 0 has it'], datetime.timedelta(seconds=ranks.LIMIT))
            work.wait()
        equal(x, 2)
    good(2, body)


def groups_of_some_ranks_work_beside_each_other():
    def body(rank):
        even, odd = dist.new_group([0, 2]), dist.new_group([1, 3])
        mine, other = (odd, even) if rank % 2 else (even, odd)
        x = torch.full((5,), rank + 1.0)
        dist.all_reduce(x, group=mine)
        equal(x, 6.0 if rank % 2 else 4.0)
        assert dist.get_world_size(mine) == 2 and dist.get_rank(mine) == rank // 2
        assert dist.all_reduce(x, group=other) is None  # with a warning of PyTorch's
        dist.broadcast(x, 3 if rank % 2 else 2, group=mine)
        for _ in range(3):
            pair = [dist.new_group([0, 1]), dist.new_group([2, 3])][rank // 2]
            dist.all_reduce(x, group=pair)
            dist.destroy_process_group(pair)
        alone = [dist.new_group([r]) for r in range(N)][rank]
        dist.all_reduce(x, group=alone)
        dist.barrier(group=alone)
        equal(x, 4 * (4.0 + 6.0))
        assert str(dist.get_backend(mine)).lower() == 'plait'
    good(N, body)


def a_store_serves_one_group_after_the_other():
    def body(rank):
        store = dist.distributed_c10d._get_default_store()
        for k in range(5):
            with meet(store, rank, 3, ranks.LIMIT, f'meeting {k}') as comm:
                assert comm.allreduce(numpy.ones(1)) == 3
    good(3, body)


def objects_travel():
    def body(rank):
        every = [None] * N
        dist.all_gather_object(every, {'rank': rank, 'text': 'x' * 1000 * rank})
        assert [e['rank'] for e in every] == list(range(N)) and len(every[3]['text']) == 3000
        got = [None] * N if rank == 1 else None
        dist.gather_object((rank, 'a'), got, dst=1)
        assert got is None or got == [(r, 'a') for r in range(N)]
        items = ['a', {'b': 2}, 3] if rank == 2 else [None] * 3
        dist.broadcast_object_list(items, src=2)
        assert items == ['a', {'b': 2}, 3]
        out = [None]
        dist.scatter_object_list(out, [f'for {r}' for r in range(N)] if rank == 0 else None, src=0)
        assert out == [f'for {rank}']
    good(N, body)


def messages_keep_their_order_and_carry_tags():
    def body(rank):
        if rank == 0:
            for k, tag in enumerate((0, 3, 0, 4)):
                dist.send(torch.full((1000,), float(k)), 1, tag=tag)
            dist.send(torch.zeros(0), 1)
        else:
            for k, tag in enumerate((0, 3, 0, 4)):
                x = torch.zeros(2000)[::2]
                assert dist.recv(x, 0, tag=tag) == 0
                equal(x, float(k))
            dist.recv(torch.zeros(0), 0)
        x, y = torch.full((3,), float(rank)), torch.zeros(3)
        mine = [dist.isend(x, rank), dist.irecv(y, rank)]  # to oneself
        for work in mine:
            work.wait()
        equal(y, float(rank))
    good(2, body)


def the_name_of_the_backend_and_its_class_are_known():
    def body(rank):
        group = dist.group.WORLD
        assert isinstance(group, plait.torch.ProcessGroup) and group.name() == 'plait'
        assert f'rank {rank} of 2' in repr(group)
        assert (group.rank(), group.size()) == (rank, 2)
        before = group._get_sequence_number_for_group()
        dist.barrier()
        assert group._get_sequence_number_for_group() == before + 1
        group.monitored_barrier(datetime.timedelta(seconds=ranks.LIMIT))
        if ranks.VERSION >= (2, 15):  # it was for Gloo only
            dist.monitored_barrier(timeout=datetime.timedelta(seconds=ranks.LIMIT))
        x = torch.full((3,), float(rank))
        group.broadcast([x], root=1).wait()
        equal(x, 1)
    good(2, body)


sentences.run([
    reductions_agree_with_computed_results_for_every_dtype_and_operator, averages_and_truth_values_are_reduced,
    a_factor_comes_before_the_sum,
    data_moves_in_every_dtype, sparse_tensors_are_summed, what_gloo_does_is_done_alike,
    tensors_that_are_not_in_one_piece_are_packed,
    parts_may_differ_in_size, several_tensors_go_in_one_call, works_end_in_any_order_of_waiting,
    a_message_that_is_awaited_keeps_no_tensors_of_later_operations,
    threads_that_need_a_lane_at_once_start_one_thread,
    futures_have_the_results_and_run_callbacks, results_reach_tensors_of_inference_mode,
    operations_go_on_without_the_rank,
    groups_of_some_ranks_work_beside_each_other, a_store_serves_one_group_after_the_other, objects_travel,
    messages_keep_their_order_and_carry_tags, the_name_of_the_backend_and_its_class_are_known,
])
