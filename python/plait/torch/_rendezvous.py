# SPDX-License-Identifier: BSD-3-Clause
"""How the ranks of a process group meet: PyTorch's store carries rank 0's id to the others."""
from __future__ import annotations

import contextlib
import logging
import os
import time
from typing import Any, List, Tuple

from .._comm import Comm, Id, unique_id
from ._errors import ArgError, TimeoutError, meant  # pylint: disable=redefined-builtin

_POLL = 0.001, 0.02  # seconds between looks: at first, at most
_GRACE = 3.0
_LONGEST = 1e6  # seconds of a timeout
_WARN = 30.0  # seconds until a log line names who is missing
_log = logging.getLogger('plait.torch')


class _Mail:
    """Letters from one rank to another. Each is read once and then gone, so a later group may use the same store.

    A counter tells whether a letter is there: a look that does not block, in every store and version of PyTorch.
    """

    def __init__(self, store: Any, seconds: float):
        self._store, self._began, self._seconds, self._warned = store, time.monotonic(), seconds, False

    def post(self, key: str, letter: bytes) -> None:
        self._store.set(key, letter)
        self._store.add(key + '/posted', 1)

    def take(self, keys: List[str], missing: Any) -> List[bytes]:
        """These letters when all are there. missing(places in `keys`) says whose did not come."""
        pause, left = _POLL[0], list(range(len(keys)))
        while True:
            left = [k for k in left if self._store.add(keys[k] + '/posted', 0) == 0]
            if not left:
                return [self._open(key) for key in keys]
            waited = time.monotonic() - self._began
            if waited > self._seconds:
                raise TimeoutError(missing(left))
            if waited > _WARN and not self._warned:
                self._warned = True
                _log.warning('%s; still waiting', missing(left))
            time.sleep(pause)
            pause = min(2 * pause, _POLL[1])

    def _open(self, key: str) -> bytes:
        letter = self._store.get(key)
        for gone in key, key + '/posted':
            with contextlib.suppress(Exception):  # not every store can
                self._store.delete_key(gone)
        return letter


def _place() -> bytes:
    """Equal on ranks that an id of one host can join: same kernel, same network name space."""
    with open('/proc/sys/kernel/random/boot_id', 'rb') as boot:
        return boot.read().strip() + b' %d' % os.stat('/proc/self/ns/net').st_ino


def _make_id(mail: _Mail, nrank: int, seconds: float) -> bytes:
    """Rank 0: one id for all, over TCP if they are on several hosts; or the error, which all are told."""
    def missing(left: List[int]) -> str:
        ranks = ', '.join(str(k + 1) for k in left)
        return (f'init: rank {ranks} of {nrank} has not come after {seconds:g} s (timeout=): it has died, is late, or '
                'uses another backend; every rank calls init_process_group() or new_group() with backend="plait"')

    letters: List[Tuple[int, bytes]] = [(rank, b'') for rank in range(1, nrank)]
    try:
        places = mail.take([f'place/{rank}' for rank, _ in letters], missing)
        uid = unique_id(tcp=any(place != _place() for place in places))
        letters = [(rank, b'+' + bytes(uid)) for rank, _ in letters]
        return uid
    except Exception as error:
        letters = [(rank, b'-' + str(error).encode()) for rank, _ in letters]
        raise meant(error) from None
    finally:
        for rank, letter in letters:
            mail.post(f'id/{rank}', letter)


def _get_id(mail: _Mail, rank: int, seconds: float) -> bytes:
    def missing(_left: List[int]) -> str:
        return (f'init: rank 0 has not come after {seconds:g} s (timeout=): it has died, is late, or uses another '
                'backend; every rank calls init_process_group() or new_group() with backend="plait"')

    mail.post(f'place/{rank}', _place())
    letter, = mail.take([f'id/{rank}'], missing)
    if letter[:1] != b'+':
        raise TimeoutError(letter[1:].decode(errors='replace'))
    return Id(letter[1:])


def meet(store: Any, rank: int, nrank: int, seconds: float, name: str) -> Comm:
    """The comm of a process group. `seconds` is the group's timeout: of the meeting, and of each operation."""
    if abs(seconds) > _LONGEST:  # PyTorch gives timedelta.max as a negative number
        seconds = _LONGEST
    if seconds <= 0:
        raise ArgError(f'init: timeout= is {seconds:g} s; it must be more than 0')
    uid = None
    if nrank > 1:
        # The others give rank 0 some time to tell them what kept it.
        mail = _Mail(store, seconds if rank == 0 else seconds + _GRACE)
        uid = _make_id(mail, nrank, seconds) if rank == 0 else _get_id(mail, rank, seconds)
    try:
        return Comm.create(nrank, rank, uid, name=name, timeout=seconds, deadline=seconds)
    except Exception as error:
        raise meant(error) from None
