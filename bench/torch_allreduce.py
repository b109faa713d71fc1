#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's all_reduce of float32 through plait.torch and through Gloo, alternately: medians in microseconds.

    PLAIT_LIBRARY=build/release/libplait.so.0 PYTHONPATH=python python3 bench/torch_allreduce.py [RANKS]
"""
import datetime
import os
import statistics
import sys
import tempfile
import time

import torch
from torch import distributed as dist
from torch import multiprocessing

import plait.torch  # registers the backend

SIZES = {4: 400, 4096: 400, 1 << 20: 60, 64 << 20: 10}  # bytes: calls of a round
ROUNDS = 7


def seconds(group, x, calls):
    """Of one call, on this rank."""
    dist.barrier(group=group)
    begun = time.perf_counter()
    for _ in range(calls):
        dist.all_reduce(x, group=group)
    return (time.perf_counter() - begun) / calls


def rank_main(rank, nrank, folder):
    """One rank."""
    torch.set_num_threads(1)
    dist.init_process_group('plait', store=dist.FileStore(os.path.join(folder, 'store'), nrank), rank=rank,
                            world_size=nrank, timeout=datetime.timedelta(minutes=5))
    groups = {'plait': dist.group.WORLD, 'gloo': dist.new_group(backend='gloo')}
    if rank == 0:
        print(f'PyTorch {torch.__version__}, {nrank} ranks\n{"bytes":>10} {"plait":>10} {"gloo":>10} {"ratio":>6}')
    for size, calls in SIZES.items():
        x, times = torch.zeros(size // 4), {name: [] for name in groups}
        for group in groups.values():
            seconds(group, x, max(2, calls // 10))
        for _ in range(ROUNDS):
            for name, group in groups.items():
                times[name].append(1e6 * seconds(group, x, calls))
        ours, theirs = (statistics.median(times[name]) for name in ('plait', 'gloo'))
        if rank == 0:
            print(f'{size:10} {ours:10.1f} {theirs:10.1f} {theirs / ours:6.1f}', flush=True)
    dist.destroy_process_group()


if __name__ == '__main__':
    ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    with tempfile.TemporaryDirectory() as store:
        multiprocessing.start_processes(rank_main, (ranks, store), ranks, start_method='fork')
