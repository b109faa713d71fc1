#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""plait.torch.fuse(): gradients in a fusion's buckets, beside those of DDP's own."""
import copy
import datetime
import os
import signal
import warnings

import torch
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

import plait
import sentences
import torch_ranks as ranks
from plait.torch import fuse
from torch_ranks import good, outcomes, wrong

warnings.simplefilter('ignore')
N, STEPS = 2, 15
PARAMETERS = 8


class Net(torch.nn.Module):
    """A branch that rank 0 uses in some steps, and one that nobody uses."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.first, self.last = torch.nn.Linear(6, 30), torch.nn.Linear(30, 1)
        self.branch, self.nobody = torch.nn.Linear(30, 30), torch.nn.Linear(2, 2)
        self.register_buffer('seen', torch.zeros(1))

    def forward(self, x, branch):
        self.seen += 1
        hidden = torch.tanh(self.first(x))
        return self.last(torch.tanh(self.branch(hidden)) if branch else hidden)


def train(model, rank, steps=STEPS):
    """The losses of some steps, and the model."""
    optimiser, losses = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01), []
    for step in range(steps):
        torch.manual_seed(100 * step + rank)
        x = torch.randn(4, 6)
        loss = torch.nn.functional.mse_loss(model(x, rank == 0 and step % 3 == 0), x.sum(1, keepdim=True))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses, model.module


def hook():
    found, = dist.group.WORLD.hooks
    return found


def close(got, expected, tolerance):
    for a, b in zip(got, expected):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def backward_wrong(text, function):
    """As wrong(), where C++ passes on the text alone."""
    ranks.ranks.wrong(RuntimeError, text, function)


def losses_and_weights_are_those_of_ddp():
    def body(rank):
        losses, reference = train(DDP(Net(), find_unused_parameters=True), rank)
        start = reference.nobody.weight.detach().clone()
        for options in ({}, {'layout': 0}, {'layout': [2, 5], 'gradient_as_bucket_view': True}, {'layout': 'cubic'},
                        {'reproducible': True}):
            model = Net()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(rank)  # rank 0's are broadcast
            model = fuse(model, find_unused_parameters=True, **options)
            mine, trained = train(model, rank)
            close(torch.tensor(mine), torch.tensor(losses), 1e-5)
            close(trained.parameters(), reference.parameters(), 1e-5)
            assert trained.nobody.weight.grad is None and torch.equal(trained.nobody.weight, start)
            assert torch.equal(trained.seen, reference.seen)
            del model, trained
    good(N, body)


def gradients_travel_in_the_fusion_s_buckets_and_not_in_ddp_s():
    def body(rank):
        model = fuse(Net(), find_unused_parameters=True)
        began = dist.group.WORLD._get_sequence_number_for_group()
        train(model, rank)
        # Of buffers and of who uses what, in each step.
        assert dist.group.WORLD._get_sequence_number_for_group() - began == 2 * STEPS
        assert len(hook()._places) == PARAMETERS
        mine = fuse(torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)), layout=[1, 3])
        for _ in range(3):  # the second pass has DDP's buckets in the order of the first
            mine(torch.ones(1, 3)).sum().backward()
        other, = [h for h in dist.group.WORLD.hooks if h is not hook_of(model)]
        assert [name for name, _ in other._places] == ['0, 1.bias', '1, 1.weight', '2, 0.bias', '3, 0.weight'], \
            other._places
    good(N, body)


def hook_of(model):
    found, = [h for h in dist.group.WORLD.hooks if len(h._names) == len(list(model.parameters()))]
    return found


def gradients_travel_as_bfloat16_and_are_rounded_once():
    def body(rank):
        for kind in (torch.bfloat16, 'float16'):
            plain, fused = DDP(Net(), find_unused_parameters=True), fuse(Net(), find_unused_parameters=True,
                                                                        payload=kind, round='once')
            for model in (plain, fused):
                torch.manual_seed(rank)
                model(torch.randn(4, 6), True).sum().backward()
            rounded, dtype = 0, getattr(torch, str(kind).replace('torch.', ''))
            for a, b in zip(fused.module.parameters(), plain.module.parameters()):
                if b.grad is None:
                    continue
                assert torch.equal(a.grad, a.grad.to(dtype).float())
                torch.testing.assert_close(a.grad, b.grad, rtol=2**-6, atol=2**-8)
                rounded += not torch.equal(a.grad, b.grad)
            assert rounded
    good(N, body)


def weights_may_be_of_other_types():
    def body(rank):
        for dtype in (torch.bfloat16, torch.float64):
            model = fuse(torch.nn.Linear(4, 2).to(dtype))
            for _ in range(3):
                model.zero_grad()
                model(torch.full((1, 4), rank + 1.0, dtype=dtype)).sum().backward()
                ranks.equal(model.module.weight.grad, 1.5)
                ranks.equal(model.module.bias.grad, 1)
    good(N, body)


def gradients_are_accumulated_without_sync():
    def body(rank):
        models = [DDP(Net(), find_unused_parameters=True), fuse(Net(), find_unused_parameters=True)]
        for model in models:
            for k in range(3):
                torch.manual_seed(10 * k + rank)
                with model.no_sync():
                    model(torch.randn(2, 6), k == 1).sum().backward()
                    model(torch.randn(3, 6), False).sum().backward()
                model(torch.randn(2, 6), False).sum().backward()
        close(*([p.grad for p in model.parameters() if p.grad is not None] for model in models), 1e-5)
    good(N, body)


def ranks_may_have_batches_of_different_numbers():
    def body(rank):
        model = fuse(torch.nn.Linear(3, 1))
        with model.join():
            for _ in range(rank + 2):
                model(torch.ones(1, 3)).sum().backward()
    good(N, body)


def models_that_differ_are_told():
    def body(rank):
        def begin():
            model = fuse(torch.nn.Linear(3, 2 + rank))
            model(torch.ones(1, 3)).sum().backward()
        if rank == 0:
            backward_wrong('rank 1', begin)
        else:  # DDP compares them with rank 0's
            ranks.ranks.wrong(RuntimeError, 'params|shape', begin)

    def buckets(rank):
        model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 2))
        model = fuse(DDP(model, bucket_cap_mb=25 * rank, find_unused_parameters=True)) if ranks.NEW else \
            fuse(model, find_unused_parameters=rank == 1)
        backward_wrong('fuse: rank 0 has "tensors',
                       lambda: [model(torch.ones(1, 3)).sum().backward() for _ in range(2)])
    good(N, body)
    good(N, buckets)


def a_rank_that_dies_or_aborts_is_named_by_the_backward_pass():
    def body(rank):
        model = fuse(torch.nn.Linear(3, 1))
        for _ in range(3):
            model(torch.ones(1, 3)).sum().backward()
        dist.barrier()
        if rank == 1 and died:
            os.kill(os.getpid(), signal.SIGKILL)
        if rank == 1:
            dist.group.WORLD.abort()
            wrong(plait.Error, 'rank 1', dist.barrier)
            return 'told'
        backward_wrong('rank 1' if died else r'abort\(\) on rank 1',
                       lambda: model(torch.ones(1, 3)).sum().backward())
        return 'told'
    for died in (True, False):
        outcome = outcomes(N, body)[0]
        assert outcome == 'told', outcome


def what_cannot_be_fused_is_refused():
    def body(_rank):
        layer = torch.nn.Linear(2, 2)
        gloo = dist.new_group(backend='gloo', timeout=datetime.timedelta(seconds=ranks.LIMIT))
        for text, call in (
                ('process group has backend gloo; it must be plait', lambda: fuse(layer, process_group=gloo)),
                ('static_graph is an option of Distr', lambda: fuse(DDP(copy.deepcopy(layer)), static_graph=True)),
                ('fuse: weight is on meta; the backend plait takes',
                 lambda: fuse(torch.nn.Linear(2, 2, device='meta'))),
                ('payload is .float31.; it must be', lambda: fuse(copy.deepcopy(layer), payload='float31')),
                ('payload is torch.float32; it must be torch.bfloat16', lambda: fuse(layer, payload=torch.float32)),
                ('payload is torch.int8; it must be torch.bfloat16', lambda: fuse(layer, payload=torch.int8)),
                ('layout is -1; it must be bytes', lambda: fuse(layer, layout=-1)),
                (r'layout is \[5\]; .* from 1 to 1; there are 2 tensors', lambda: fuse(layer, layout=[5])),
                (r'layout is \[2, 1\]; .* must increase', lambda: fuse(DDP(copy.deepcopy(layer)), layout=[2, 1])),
                ('layout is .ring.; it must be', lambda: fuse(copy.deepcopy(layer), layout='ring'))):
            wrong(plait.ArgError, text, call)
        model = fuse(torch.nn.Embedding(4, 2, sparse=True))
        backward_wrong('fuse: the gradient of 0, weight is sparse; make it dense',
                       lambda: model(torch.tensor([1])).sum().backward())
    good(N, body)


sentences.run([
    losses_and_weights_are_those_of_ddp, gradients_travel_in_the_fusion_s_buckets_and_not_in_ddp_s,
    gradients_travel_as_bfloat16_and_are_rounded_once, weights_may_be_of_other_types,
    gradients_are_accumulated_without_sync, ranks_may_have_batches_of_different_numbers,
    models_that_differ_are_told, a_rank_that_dies_or_aborts_is_named_by_the_backward_pass,
    what_cannot_be_fused_is_refused,
])
