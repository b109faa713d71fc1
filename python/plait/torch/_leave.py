# SPDX-License-Identifier: BSD-3-Clause
"""How a rank leaves a process group: at its end, or with an exception that the other ranks are told."""
from __future__ import annotations

import contextlib
import sys
import time
from multiprocessing import util
from typing import Any, Dict, Hashable, List, Optional, Set

from .._comm import Comm
from .._errors import Error
from ._gpu import Gpu
from ._work import Lane, Work

_MOMENT = 1.0  # seconds


def abort(comm: Comm, hooks: Any, reason: str) -> None:
    for fusion in [hook.fusion for hook in hooks if hook.fusion is not None]:
        fusion.abort(reason)
    comm.abort(reason)


def _exception(pending: bool) -> Optional[str]:
    """The exception that is active or ends the process, or its exit status if operations are pending; else None."""
    error = sys.exc_info()[1] or (getattr(sys, 'last_value', None) if util.is_exiting() else None)
    if isinstance(error, SystemExit):  # PyTorch's multiprocessing makes one of each exception
        if not error.code or (error.__context__ is None and not pending):
            return None
        if error.__context__ is None:
            return f'exit status {error.code}'
        error = error.__context__
    return None if error is None else f'{type(error).__name__}: {error}'


def _end(pending: Set[Work], gpus: List[Gpu]) -> bool:
    """Wait a moment for these; have all ended?"""
    until = time.monotonic() + _MOMENT
    while not all([work.is_completed() for work in list(pending)] + [gpu.has_ended() for gpu in gpus]):
        if time.monotonic() > until:
            return False
        time.sleep(0.001)
    return True


def leave(comm: Comm, pending: Set[Work], lanes: Dict[Hashable, Lane], gpus: List[Gpu], hooks: Any) -> None:
    """Leave the comm when its group is gone, or with the process. The other ranks learn of an exception.

    What is pending gets a moment to end; it may wait for what no rank will do any more.
    """
    reason = _exception(bool(pending))
    try:
        if reason is None and not _end(pending, gpus):
            reason = 'the group was destroyed before its operations had ended'
    except RuntimeError as error:  # CUDA's
        reason = str(error)
    if reason is not None:
        with contextlib.suppress(Error):
            abort(comm, hooks, reason)
    for hook in list(hooks):
        with contextlib.suppress(Error):
            hook.leave()
    with contextlib.suppress(Error):  # a failure has been told by the call that met it
        comm.destroy()
    for lane in lanes.values():
        lane.end()
