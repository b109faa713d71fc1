# SPDX-License-Identifier: BSD-3-Clause
"""Operations on tensors of a GPU: the streams that they are put on, and their works."""
from __future__ import annotations

import contextlib
import ctypes
import time
from datetime import timedelta
from typing import Any, Iterator, List, Optional, Sequence, Tuple

import torch
from torch import cuda
from torch.futures import Future

from .._comm import Comm
from .._errors import Error
from .._group import group
from .._library import StreamHandle, lib
from ._errors import TimeoutError, meant  # pylint: disable=redefined-builtin
from ._tensors import Buffer
from ._work import NO_TIMEOUT, Shell, failed_future


@contextlib.contextmanager
def library_stream(stream: Any) -> Iterator[Any]:
    """A CUDA stream as the library's."""
    handle = ctypes.POINTER(StreamHandle)()
    lib.plait_stream_create_cuda_on(stream.device.index, stream.cuda_stream, ctypes.byref(handle))
    try:
        yield handle
    finally:
        lib.plait_stream_destroy(handle)


def future_of(gpu: Optional[Gpu]) -> Future:
    """A future; on a GPU of results that the stream of set_result() computes."""
    return Future() if gpu is None else Future(devices=[gpu.device])


class Gpu:
    """What a process group has on its GPU: a stream of its own, and the messages that have not begun.

    An operation is put on the current stream if the caller waits for it, else on the group's stream, behind what is on
    the current one. The library's call returns when the peers have called, too. So messages begin together, at the
    first wait or with the next collective: a rank may call isend() before irecv().
    """

    def __init__(self, comm: Comm, device: torch.device, calls: Any):
        self.comm, self.device = comm, device
        self._calls = calls  # the group's lock
        self._own = cuda.Stream(device)
        self._later: List[GpuWork] = []

    def behind(self) -> Any:
        """The group's stream, whose later operations come after those on the current one."""
        self._own.wait_stream(cuda.current_stream(self.device))
        return self._own

    def on_own(self) -> Any:
        """With the group's stream as the current one."""
        return cuda.stream(self._own)

    def run(self, name: str, calls: Sequence[Tuple[Any, ...]], buffers: List[Buffer], result: Any, *, goes_on: bool,
            message: bool = False) -> GpuWork:
        """The work of these calls: arguments of Comm._begin()."""
        stream = self.behind() if goes_on else cuda.current_stream(self.device)
        work = GpuWork(self, name, calls, buffers, result, stream)
        self._later.append(work)
        if not message:
            self.launch()
            if work.exception() is not None:
                raise work.exception()
        return work

    def launch(self) -> None:
        """Begin what has not begun."""
        with self._calls, contextlib.ExitStack() as handles:
            works, self._later, error = self._later, [], None
            try:
                if works:
                    with group():
                        for work in works:
                            work.begin(handles)
            except BaseException as raised:
                error = meant(raised)
                if not isinstance(raised, Error):
                    raise
            finally:
                for work in works:
                    work.has_begun(error)

    def synchronize(self) -> None:
        """Wait until the GPU has done what has begun."""
        for stream in (self._own, cuda.current_stream(self.device)):
            stream.synchronize()

    def has_ended(self) -> bool:
        """Is nothing left of what the program has called?"""
        return not self._later and all(s.query() for s in (self._own, cuda.current_stream(self.device)))


class GpuWork(Shell):
    """Calls that are put on a stream. wait() lets the current stream wait for them, and with a timeout the caller."""

    def __init__(self, gpu: Gpu, name: str, calls: Sequence[Tuple[Any, ...]], buffers: List[Buffer], result: Any,
                 stream: Any):
        super().__init__(result)
        self._gpu, self._name, self._to_begin, self._buffers, self._stream = gpu, name, calls, buffers, stream
        self._event: Any = None
        self._error: Optional[BaseException] = None

    def begin(self, handles: contextlib.ExitStack) -> None:
        handle = handles.enter_context(library_stream(self._stream)) if self._to_begin else None
        for name, arguments, call, operation in self._to_begin:
            call.stream = handle
            self._gpu.comm._begin(name, arguments, call, operation, None)

    def has_begun(self, error: Optional[BaseException]) -> None:
        if error is None:
            with cuda.stream(self._stream):
                for buffer in self._buffers:
                    buffer.store()
        if self._stream != cuda.current_stream(self._gpu.device):
            for tensor in (tensor for buffer in self._buffers for tensor in buffer.kept):
                tensor.record_stream(self._stream)  # its memory is not reused before
        self._error, self._event = error, self._stream.record_event()
        self._to_begin, self._buffers = (), []

    def synchronize(self) -> None:
        """Later operations of the current stream come after it."""
        self._gpu.launch()
        self._error = self._error or self._failure()
        if self._error is not None:
            raise self._error
        current = cuda.current_stream(self._gpu.device)
        if current != self._stream:
            current.wait_event(self._event)

    def _failure(self) -> Optional[BaseException]:
        """The comm has failed: streams pass, whatever their data is."""
        error = self._gpu.comm._failure()
        return None if error is None else meant(error)

    def wait(self, timeout: timedelta = NO_TIMEOUT) -> bool:
        """As synchronize(). With a timeout it returns when the operation has ended, or raises TimeoutError."""
        until = time.monotonic() + timeout.total_seconds()
        while timeout > NO_TIMEOUT and not self.is_completed():
            if time.monotonic() > until:
                raise TimeoutError(f'{self._name}: wait() has waited its timeout of {timeout.total_seconds():g} s. The '
                                   'operation goes on: wait again, or end it with abort()')
            time.sleep(0.0001)
        self.synchronize()
        return True

    def get_future(self) -> Future:
        """A future of the result, in the order of streams."""
        if self._future is None:
            self._gpu.launch()
            if self._error is not None:
                self._future = failed_future(self._error)
            else:
                self._future = future_of(self._gpu)
                with cuda.stream(self._stream):
                    self._future.set_result(self._result)
        return self._future

    def is_completed(self) -> bool:
        self._gpu.launch()
        return self._error is not None or self._event.query()

    def test(self) -> bool:
        """As a request's, for the work of several."""
        return self.is_completed()

    def is_success(self) -> bool:
        return self.is_completed() and self._error is None

    def exception(self) -> Optional[BaseException]:
        return self._error
