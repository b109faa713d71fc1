#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""plait.torch under what trains models: DDP beside one process, samplers, communication hooks, sharding, torchrun."""
import copy
import os
import subprocess
import sys
import tempfile
import warnings

import torch
from torch import distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import sentences
import torch_ranks as ranks
from torch_ranks import good

warnings.simplefilter('ignore')
N, SAMPLES, EPOCHS = 4, 32, 2


class Net(torch.nn.Module):
    """A branch that only some batches use, a buffer, and layers."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.first, self.last, self.branch = torch.nn.Linear(6, 40), torch.nn.Linear(40, 1), torch.nn.Linear(40, 40)
        self.register_buffer('seen', torch.zeros(1))

    def forward(self, x):
        self.seen += 1
        hidden = torch.tanh(self.first(x))
        if x.shape[0] % 2:
            hidden = torch.tanh(self.branch(hidden))
        return self.last(hidden)


def samples():
    torch.manual_seed(7)
    x = torch.randn(SAMPLES, 6)
    return TensorDataset(x, x.sum(1, keepdim=True))


def step(model, optimiser, x, y):
    optimiser.zero_grad()
    torch.nn.functional.mse_loss(model(x), y).backward()
    optimiser.step()


def alone(batch=8):
    """One process with the batches of all ranks."""
    model, data = Net(), samples()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _ in range(EPOCHS):
        for k in range(0, SAMPLES, batch):
            step(model, optimiser, data.tensors[0][k:k + batch], data.tensors[1][k:k + batch])
    return model


def same(model, reference, tolerance=1e-6):
    for (name, a), b in zip(model.named_parameters(), reference.parameters()):
        torch.testing.assert_close(a.detach(), b.detach(), rtol=tolerance, atol=tolerance,
                                   msg=lambda m, n=name: f'{n}: {m}')


def distributed(rank, hook=None, wrap=DDP, **options):
    model = Net()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(rank)  # rank 0's are broadcast
    model = wrap(model, find_unused_parameters=True, bucket_cap_mb=0.001, **options)
    if hook is not None:
        model.register_comm_hook(None, hook)
    data = samples()
    loader = DataLoader(data, batch_size=8 // N, sampler=DistributedSampler(data, N, rank, shuffle=False))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(EPOCHS):
        loader.sampler.set_epoch(epoch)
        for x, y in loader:
            step(model, optimiser, x, y)
    return model


def ddp_trains_as_one_process_does():
    reference = alone()

    def body(rank):
        same(distributed(rank).module, reference)
        same(distributed(rank, gradient_as_bucket_view=True).module, reference)
        same(distributed(rank, hook=default_hooks.allreduce_hook).module, reference)
        same(distributed(rank, hook=default_hooks.fp16_compress_hook).module, reference, 1e-2)
        if ranks.NEW:  # older ones have it for NCCL only
            same(distributed(rank, hook=default_hooks.bf16_compress_hook).module, reference, 1e-1)
    good(N, body)


def gradients_are_kept_for_one_reduction_without_sync():
    def body(rank):
        model = DDP(Net(), find_unused_parameters=True)
        x = torch.full((2, 6), rank + 1.0)
        with model.no_sync():
            model(x).sum().backward()
        mine = model.module.last.weight.grad.clone()
        model(x).sum().backward()
        every = [torch.zeros_like(mine) for _ in range(N)]
        dist.all_gather(every, mine)
        torch.testing.assert_close(model.module.last.weight.grad, 2 * sum(every) / N)
    good(N, body)


def ranks_may_have_batches_of_different_numbers():
    def body(rank):
        model = DDP(torch.nn.Linear(3, 1))
        with model.join():
            for _ in range(rank + 1):
                model(torch.ones(1, 3)).sum().backward()
    good(2, body)


def sharded_optimiser_states_give_the_same_weights():
    from torch.distributed.optim import ZeroRedundancyOptimizer

    def body(rank):
        model, reference = DDP(Net(), find_unused_parameters=True), Net()
        sharded = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
        plain = torch.optim.Adam(reference.parameters(), lr=0.01)
        data = samples().tensors
        for _ in range(2):
            step(model, sharded, data[0][rank * 16:rank * 16 + 16], data[1][rank * 16:rank * 16 + 16])
            step(reference, plain, *data)
        same(model.module, reference, 1e-5)
    good(2, body)


def sharded_models_train_as_one_process_does():
    """FSDP, which PyTorch 1.13 has for GPUs only, in both of its forms."""
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
    reference = alone()

    def body(rank):
        dense = Net()
        wrapped = FullyShardedDataParallel(copy.deepcopy(dense), device_id=torch.device('cpu'))
        sharded = copy.deepcopy(dense)
        fully_shard(sharded)
        data = samples().tensors
        for model in (wrapped, sharded):
            optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
            for _ in range(EPOCHS):
                for k in range(0, SAMPLES, 8):
                    mine = slice(k + 8 // 2 * rank, k + 8 // 2 * (rank + 1))
                    step(model, optimiser, data[0][mine], data[1][mine])
        with FullyShardedDataParallel.summon_full_params(wrapped):
            same(wrapped, reference, 1e-5)
        for (name, a), b in zip(sharded.named_parameters(), reference.parameters()):
            torch.testing.assert_close(a.full_tensor(), b.detach(), rtol=1e-5, atol=1e-5, msg=name)
    good(2, body)


def sharded_models_are_saved_and_loaded():
    """By torch.distributed.checkpoint, at once and in the background, and from rank 0's whole model."""
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint import state_dict
    from torch.distributed.fsdp import fully_shard
    whole, names = Net().state_dict(), ('now', 'later')

    def body(rank, folder):
        models = []
        for k in range(4):
            models.append(Net())
            fully_shard(models[k])
            with torch.no_grad():
                for parameter in models[k].parameters():
                    parameter.mul_(k == 0)
        for name, save in zip(names, (checkpoint.save, checkpoint.async_save)):
            states = {'model': state_dict.get_model_state_dict(models[0])}
            saved = save(states, checkpoint_id=os.path.join(folder, name))
            if name == 'later':
                saved.result()
        for name, model in zip(names, models[1:]):
            states = {'model': state_dict.get_model_state_dict(model)}
            checkpoint.load(states, checkpoint_id=os.path.join(folder, name))
            state_dict.set_model_state_dict(model, states['model'])
        options = state_dict.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
        state_dict.set_model_state_dict(models[3], dict(whole) if rank == 0 else {}, options=options)
        for model in models[1:]:
            for name, parameter in model.named_parameters():
                ranks.equal(parameter.full_tensor().detach(), whole[name])
    with tempfile.TemporaryDirectory() as folder:
        good(2, lambda rank: body(rank, folder))


def sparse_gradients_are_averaged():
    def body(rank):
        models = []
        for sparse in (False, True):
            torch.manual_seed(3)
            model = DDP(torch.nn.Sequential(torch.nn.Embedding(10, 4, sparse=sparse), torch.nn.Linear(4, 1)))
            optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
            for k in range(3):
                step(model, optimiser, torch.tensor([rank, 3, rank + k]), torch.ones(3, 1))
            models.append(model)
        same(*models)
    good(N, body)


def functional_collectives_reach_the_group():
    from torch.distributed import _functional_collectives as functional

    def body(rank):
        x = torch.full((4,), rank + 1.0)
        ranks.equal(functional.all_reduce(x, 'sum', list(range(2))) + 0, 3.0)
        ranks.equal(functional.all_gather_tensor(x, 0, list(range(2))) + 0, torch.tensor([1.0] * 4 + [2.0] * 4))
        ranks.equal(functional.reduce_scatter_tensor(x, 'sum', 0, list(range(2))) + 0, 3.0)
        ranks.equal(functional.all_to_all_single(x, None, None, list(range(2))) + 0, torch.tensor([1.0, 1.0, 2.0, 2.0]))
        ranks.equal(functional.broadcast(x, 1, list(range(2))) + 0, 2.0)
    good(2, body)


SCRIPT = '''
import os, torch, torch.distributed as dist, plait.torch
dist.init_process_group('plait')
x = torch.ones(3) * (dist.get_rank() + 1)
dist.all_reduce(x)
assert x.tolist() == [3.0] * 3 and int(os.environ['WORLD_SIZE']) == 2
print(f'rank {dist.get_rank()} has {x[0].item()}\\n', end='', flush=True)
'''


def torchrun_starts_the_ranks():
    """Of a script that does not destroy its group."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'script.py')
        with open(path, 'w', encoding='utf-8') as script:
            script.write(SCRIPT)
        # --standalone of PyTorch 1.13 has one port for all who run it on a machine. Without the last options 1.13 fails
        # on Python 3.11 (its Std.NONE is no member there).
        done = subprocess.run([sys.executable, '-m', 'torch.distributed.run', '--rdzv_backend', 'c10d',
                               '--rdzv_endpoint', 'localhost:0', '--rdzv_id', folder, '--nproc_per_node', '2',
                               '--log_dir', folder, '--redirects', '1', '--tee', '1', path], timeout=200,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert 'rank 0 has 3.0' in done.stdout and 'rank 1 has 3.0' in done.stdout, done.stdout


if __name__ == '__main__':
    sentences.run([
        ddp_trains_as_one_process_does, gradients_are_kept_for_one_reduction_without_sync,
        ranks_may_have_batches_of_different_numbers, sharded_optimiser_states_give_the_same_weights,
        sparse_gradients_are_averaged,
    ] + ranks.NEW * [sharded_models_train_as_one_process_does, functional_collectives_reach_the_group] + (
        ranks.VERSION >= (2, 15)) * [sharded_models_are_saved_and_loaded] + [
        torchrun_starts_the_ranks,
    ])
