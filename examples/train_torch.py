#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Data-parallel training with PyTorch: DistributedDataParallel, whose buckets Plait's fusion replaces.

    pip install ./python torch
    export PLAIT_LIBRARY=~/plait/lib/libplait.so.0     # only where the loader does not find it
    torchrun --nproc-per-node 4 examples/train_torch.py

or, to start the ranks on this machine without torchrun, python3 examples/train_torch.py 4. A small network learns on
which of three spirals a point lies; gradients travel as bfloat16.
"""
import os
import sys
import tempfile

import torch
from torch import distributed as dist
from torch import multiprocessing

import plait.torch  # registers the backend

POINTS, STEPS = 256, 200


def batch(number):
    """Points that are the same on all ranks: on one of three arms, a little beside it."""
    random = torch.Generator().manual_seed(number)
    label = torch.randint(3, (POINTS,), generator=random)
    far = torch.rand(POINTS, generator=random)
    angle = 4 * far + 2.0944 * label
    x = torch.stack([far * angle.cos(), far * angle.sin()], dim=1)
    return x + 0.01 * torch.randn(x.shape, generator=random), label


def train():
    """One rank: each takes its part of every batch."""
    rank, nrank = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU(),
                                torch.nn.Linear(64, 3))
    model = plait.torch.fuse(model, payload=torch.bfloat16)  # in the place of DistributedDataParallel(model)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(STEPS):
        x, label = batch(step)
        loss = torch.nn.functional.cross_entropy(model(x[rank::nrank]), label[rank::nrank])
        optimiser.zero_grad()
        loss.backward()  # its end has the averages of all ranks
        optimiser.step()
        if rank == 0 and step % 50 == 0:
            print(f'step {step:3}: loss {loss.item():.4f}')
    if rank == 0:
        x, label = batch(STEPS)
        loss = torch.nn.functional.cross_entropy(model.module(x), label).item()
        print(f'loss of new points: {loss:.4f}')
        assert loss < 0.1


def run_rank(rank, nrank, folder):
    """One process, without torchrun."""
    torch.set_num_threads(1)
    dist.init_process_group('plait', init_method=f'file://{folder}/store', rank=rank, world_size=nrank)
    train()


def main():
    if 'RANK' in os.environ:  # of torchrun
        dist.init_process_group('plait')
        train()
        return
    nrank = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.start_processes(run_rank, (nrank, folder), nrank, start_method='fork')


if __name__ == '__main__':
    main()
