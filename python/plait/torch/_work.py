# SPDX-License-Identifier: BSD-3-Clause
"""Operations in progress: Work with its wait() and future, and the threads that complete them."""
from __future__ import annotations

import collections
import queue
import threading
from datetime import timedelta
from typing import Any, Callable, Deque, List, Optional, Sequence, Set

import torch
from torch._C import _distributed_c10d as c10d

from .._errors import Error
from .._request import Request, wait_all
from ._errors import TimeoutError, meant  # pylint: disable=redefined-builtin
from ._tensors import Buffer

NO_TIMEOUT = timedelta(0)  # PyTorch's
# The C++ of older PyTorch (1.13 is) holds only the C++ half of a work, whose wait() then needs this half.
_HALVES = tuple(map(int, torch.__version__.split('.')[:2])) < (2, 6)
_shells: Deque[Any] = collections.deque(maxlen=1024)
_latest = threading.local()  # .shell: this thread's latest one, of which C++ may still get the future


class Lane:
    """A thread that waits for works in their order: collectives of a comm, messages from one rank to another."""

    def __init__(self) -> None:
        self._works: Any = queue.SimpleQueue()
        self._starts = threading.Lock()
        self._thread: Optional[threading.Thread] = None
        self._inner: Optional[Lane] = None

    def put(self, work: Work) -> None:
        if self._thread is threading.current_thread():  # a callback may wait for the future of another call
            self._inner = self._inner or Lane()
            self._inner.put(work)
            return
        with self._starts:
            if self._thread is None:
                self._thread = threading.Thread(target=_complete, args=(self._works,), name='plait.torch', daemon=True)
                self._thread.start()
        self._works.put(work)

    def end(self) -> None:
        self._works.put(None)
        if self._inner is not None:
            self._inner.end()


def _complete(works: Any) -> None:
    while True:
        work = works.get()
        if work is None:
            return
        work.finish()
        del work  # keeps nothing until the next


def _value(future: torch.futures.Future) -> Any:
    error, result = future.value()
    if error is not None:
        raise error
    return result


def failed_future(error: BaseException) -> torch.futures.Future:
    """C++ sees an error, too, only if it comes of a callback."""
    given = torch.futures.Future()
    given.set_result((error, None))
    return given.then(_value)


class Shell(c10d.Work):
    """The base of works. A work of older PyTorch lives on when nobody in Python has it any more, as C++ may still use
    it; it loses its result when the next one has come."""

    def __init__(self, result: Any):
        super().__init__()
        self._result = result
        self._given: Optional[torch.futures.Future] = None
        self._future: Optional[torch.futures.Future] = None

    if _HALVES:
        def __del__(self, shells: Deque[Any] = _shells, latest: Any = _latest) -> None:
            before, latest.shell = getattr(latest, 'shell', None), self
            if before is not None:
                before._result = before._given = before._future = None
            shells.append(self)

    def result(self) -> Any:
        return self._result


class Work(Shell):
    """One call of a process group: requests of the library and their buffers.

    Whoever waits completes it. A future, or a wait() with a timeout, is completed by the lane's thread, so that the
    future's callbacks need nobody to wait.
    """

    def __init__(self, name: str, lane: Lane, requests: Sequence[Any], buffers: List[Buffer], result: Any,
                 check: Optional[Callable[[], None]] = None, pending: Optional[Set[Work]] = None):
        super().__init__(result)
        self._name, self._lane, self._requests, self._buffers = name, lane, requests, buffers
        self._check, self._pending = check, set() if pending is None else pending
        self._waits = threading.RLock()  # held by who drives it
        self._state = threading.Lock()  # of what follows
        self._ended, self._error = False, None
        self._over: Optional[threading.Event] = None

    def finish(self) -> None:
        """Wait for its end, whatever that is."""
        with self._waits:
            if self._ended:
                return
            error = None
            try:
                wait_all(self._requests)
                for buffer in self._buffers:
                    buffer.store()
                if self._check is not None:
                    self._check()
            except Exception as raised:  # pylint: disable=broad-except
                error = meant(raised)
            with self._state:
                self._ended, self._error, self._requests, self._buffers = True, error, [], []
                given, over = self._given, self._over
        self._pending.discard(self)
        if over is not None:
            over.set()
        if given is not None:
            given.set_result((error, self._result))

    def wait(self, timeout: timedelta = NO_TIMEOUT) -> bool:
        """Wait for its end; raises its error, and after `timeout` TimeoutError, while the operation goes on."""
        if timeout > NO_TIMEOUT:
            self._wait_for(timeout.total_seconds())
        else:
            self.finish()
        if self._error is not None:
            raise self._error
        return True

    def _wait_for(self, seconds: float) -> None:
        with self._state:
            self._over = self._over or threading.Event()
            if self._ended:
                return
        self._lane.put(self)
        if not self._over.wait(min(seconds, threading.TIMEOUT_MAX)):
            raise TimeoutError(f'{self._name}: wait() has waited its timeout of {seconds:g} s. The operation goes on: '
                               'wait again, or end it with abort()')

    def get_future(self) -> torch.futures.Future:
        """A future of the result; its error has the text of wait()'s."""
        with self._state:
            first, ended = self._future is None, self._ended
            if first:
                self._given = torch.futures.Future()
                self._future = self._given.then(_value)  # as in failed_future()
        if first and ended:
            self._given.set_result((self._error, self._result))
        elif first:
            self._lane.put(self)
        return self._future

    def is_completed(self) -> bool:
        if not self._ended and self._waits.acquire(blocking=False):  # else somebody waits for it
            try:
                if self._tested():
                    self.finish()
            finally:
                self._waits.release()
        return self._ended

    def test(self) -> bool:
        """As a request's, for the work of several."""
        return self.is_completed()

    def _tested(self) -> bool:
        try:
            return all([request.test() for request in self._requests])
        except Error:
            return True  # finish() gets the error, and waits for the others

    def is_success(self) -> bool:
        return self.is_completed() and self._error is None

    def exception(self) -> Optional[BaseException]:
        return self._error

    def synchronize(self) -> None:
        self.wait()
