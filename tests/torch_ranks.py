# SPDX-License-Identifier: BSD-3-Clause
"""What tests of plait.torch share: a function as every rank of a process group, in forked processes."""
import datetime
import faulthandler
import os
import shutil
import tempfile

os.environ.setdefault('OMP_NUM_THREADS', '1')
os.environ.setdefault('GLOO_SOCKET_IFNAME', 'lo')

import torch
from torch import distributed as dist

import plait.torch  # registers the backend
import python_ranks as ranks

torch.set_num_threads(1)
VERSION = tuple(map(int, torch.__version__.split('.')[:2]))
NEW = VERSION >= (2, 6)
if NEW:
    import torch._dynamo  # else every rank does with its first optimiser
LIMIT = 50  # seconds: the groups' timeout; a hard limit against hangs


def begin(folder, rank, nrank, timeout=LIMIT, backend='plait', name='store'):
    """This rank's part of the process group whose store is in that folder."""
    store, limit = dist.FileStore(os.path.join(folder, name), nrank), datetime.timedelta(seconds=timeout)
    store.set_timeout(limit)
    dist.init_process_group(backend, store=store, rank=rank, world_size=nrank, timeout=limit)


def outcomes(nrank, body, **options):
    """What body(rank) returned or raised on each rank of a process group."""
    folder = tempfile.mkdtemp(prefix='plait-torch-')

    def in_group(rank, _uid):
        faulthandler.dump_traceback_later(LIMIT + 5)  # where a rank hangs
        begin(folder, rank, nrank, **options)
        try:
            return body(rank)
        finally:
            dist.destroy_process_group()
    try:
        return ranks.processes(nrank, in_group)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def good(nrank, body, **options):
    return ranks.good(outcomes(nrank, body, **options))


def equal(got, expected):
    expected = torch.as_tensor(expected, dtype=got.dtype)
    assert torch.equal(got, expected.expand(got.shape)), f'{got} is not {expected}'


def wrong(expected, text, function):
    """function() raises `expected`, which is a RuntimeError, too, with a text like this."""
    def told():
        try:
            function()
        except plait.Error as error:
            assert isinstance(error, RuntimeError), type(error).__mro__
            raise
    ranks.wrong(expected, text, told)
