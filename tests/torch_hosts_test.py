#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""plait.torch on virtual hosts, which share no memory: DDP and fuse() beside one process; groups of one host, of both.

Usage: torch_hosts_test.py PLAIT_HOSTS
"""
import datetime
import os
import subprocess
import sys

import sentences


def ranks_of_two_hosts_train_as_one_process_does():
    done = subprocess.run([sys.argv[1], '2', '--ranks', '2', '--', sys.executable, '-W', 'ignore', __file__],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=250, check=False,
                          env={**os.environ, 'PLAIT_CALIBRATE': '0'})
    assert done.returncode == 0, done.stdout
    assert done.stdout.count('all as expected') == 4, done.stdout


def rank_main():
    """One of four ranks, two on each host; the store is torch's, over TCP."""
    import torch
    from torch import distributed as dist

    import plait.torch
    import torch_train_test as train
    from torch_ranks import LIMIT, equal

    dist.init_process_group('plait', timeout=datetime.timedelta(seconds=LIMIT))
    rank, reference = dist.get_rank(), train.alone()
    train.same(train.distributed(rank).module, reference)
    train.same(train.distributed(rank, wrap=plait.torch.fuse).module, reference)
    host, across = [dist.new_group([0, 1]), dist.new_group([2, 3])], [dist.new_group([0, 2]), dist.new_group([1, 3])]
    for group, expected in ((host[rank // 2], 4 * (rank // 2) + 3), (across[rank % 2], 2 * (rank % 2) + 4)):
        for count in (1, 300000):
            x = torch.full((count,), rank + 1.0)
            dist.all_reduce(x, group=group)
            equal(x, expected)
    names = [None] * dist.get_world_size()
    dist.all_gather_object(names, os.uname().nodename)
    assert names[0] == names[1] != names[2] == names[3], names
    dist.barrier()
    dist.destroy_process_group()
    print('all as expected')


if 'HOST_INDEX' in os.environ:
    rank_main()
elif subprocess.run(['unshare', '-n', 'true'], check=False, stderr=subprocess.DEVNULL).returncode != 0:
    print('skipped: virtual hosts need root')
    sys.exit(77)
else:
    sentences.run([ranks_of_two_hosts_train_as_one_process_does])
