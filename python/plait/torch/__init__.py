# SPDX-License-Identifier: BSD-3-Clause
"""A backend of torch.distributed: collectives of tensors through Plait, with PyTorch 1.13 and later.

    import plait.torch
    torch.distributed.init_process_group("plait")

docs/torch.md lists the operations, dtypes and limits. Errors are the classes of plait and RuntimeError as well.
"""
from __future__ import annotations

from typing import Any

from torch import distributed as _dist

from ._errors import ArgError as _ArgError
from ._fuse import fuse
from ._group import ProcessGroup
from ._rendezvous import meet as _meet

__all__ = ['ProcessGroup', 'fuse', 'register']


def _create(options: Any, backend_options: Any = None) -> ProcessGroup:
    """What torch.distributed calls for init_process_group() and new_group()."""
    if backend_options is not None:
        raise _ArgError('init: pg_options is given, but the backend plait has none; its settings are the variables '
                        'PLAIT_... (docs/settings.md)')
    rank, size = options.group_rank, options.group_size
    comm = _meet(options.store, rank, size, options.timeout.total_seconds(), f'torch {options.group_id}')
    return ProcessGroup(comm, rank, size)


def register() -> None:
    """Let torch.distributed know the backend. The import does it; PyTorch 2.14 and later call it themselves, where the
    package is installed."""
    if hasattr(_dist.Backend, 'PLAIT'):
        return
    try:
        _dist.Backend.register_backend('plait', _create, extended_api=True, devices=['cpu', 'cuda'])
    except TypeError:  # PyTorch 1 knows no devices
        _dist.Backend.register_backend('plait', _create, extended_api=True)


register()
