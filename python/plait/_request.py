# SPDX-License-Identifier: BSD-3-Clause
"""Operations in the background."""
import contextlib
import ctypes

from ._group import join
from ._errors import ArgError, HARMLESS, error_of
from ._library import RequestHandle, lib

_Handle = ctypes.POINTER(RequestHandle)


class Operation:
    """Objects that one call uses and that must live until it has ended; if its comm failed, until that is destroyed."""

    def __init__(self, comm, kept, function, result):
        self.comm, self._kept, self._function, self.result = comm, kept, function, result

    def end(self, failed=False):
        """The call has ended; raises the operator's exception."""
        if failed and self.comm._failure() is not None:
            self.comm._held.append(self._kept)
        if self._function is not None and self._function.error is not None:
            raised, self._function.error = self._function.error, None
            with contextlib.suppress(ArgError):  # the comm was destroyed
                self.comm.abort(f'the operator raised {raised!r}')
            raise raised


class Request:
    """A call with wait=False: it progresses while any thread of the process waits or tests, or on the progress thread
    (Comm.create(..., progress=True)). The arrays are the library's until it has ended, and are kept until then.

    result   what the call would have returned: valid when wait() has returned, or test() was true
    pending  has its end not been seen yet?
    """

    def __init__(self, operation):
        self._operation, self.result = operation, operation.result
        self._handle, self._error, self.pending = _Handle(), None, True

    def __repr__(self):
        how = 'pending' if self.pending else 'ended' if self._error is None else f'failed: {self._error}'
        return f'<plait.{type(self).__name__} {how}>'

    def wait(self):
        """Wait until it has ended. Returns the result or raises its error, also when called again."""
        self._check()
        self._see(error_of(lib.plait_wait, ctypes.byref(self._handle)))
        return self.result

    def test(self):
        """Has it ended? Progresses all pending operations of this process. Raises its error."""
        self._check()
        done = ctypes.c_int()
        error = error_of(lib.plait_test, ctypes.byref(self._handle), ctypes.byref(done))
        if error is not None or done:
            self._see(error)
        return bool(done)

    def _check(self):
        if self._error is not None:
            raise self._error

    def _see(self, error):
        """It has ended with this error or None; unless the library refused to look."""
        if self._handle and isinstance(error, HARMLESS):
            raise error
        was, self.pending = self.pending, False
        if not self._handle:
            self._operation.comm._forget(self)
        if not was:
            return
        try:
            self._operation.end(error is not None)
        except Exception as raised:  # pylint: disable=broad-except
            error = raised
        # Who asks later is told the comm's error, not once more of a signal.
        if error is not None:
            self._operation.comm._tells(error)
        self._error = error if isinstance(error, Exception) or error is None else error.__cause__
        if error is not None:
            raise error

    def settle(self):
        """Its comm is about to be destroyed, which ends it; who asks later is told how."""
        try:
            self.wait()
        except Exception:  # pylint: disable=broad-except
            pass


class Persistent(Request):
    """A call with persistent=True: bound once, to be started again and again with the same arrays. Given back by
    free(), by leaving `with`, and with its comm."""

    def __init__(self, operation):
        super().__init__(operation)
        self.pending = False

    def start(self):
        """Begin it; then wait() or test(), before the next start."""
        lib.plait_start(self._of_comm('start'))
        self.pending, self._error = True, None

    def run(self):
        """Start it and wait for its end, in a group for the group's: the fastest way to run it repeatedly."""
        handle = self._of_comm('run')
        try:
            lib.plait_run_again(handle)
        except BaseException as error:
            self._operation.comm._tells(error)
            self._operation.end(failed=True)
            raise
        if not join(self._operation.end):
            self._operation.end()
        return self.result

    def free(self):
        """Give it back. It must not be pending."""
        lib.plait_request_free(ctypes.byref(self._handle))
        self._operation.comm._forget(self)

    def _of_comm(self, name):
        self._operation.comm._open(name)
        return self._handle

    def settle(self):
        super().settle()
        self.free()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.settle()


def wait_any(requests):
    """Wait until one of them has ended; its place, or None when there was none to wait for. An error has the place of
    the request that failed as `index`."""
    requests = list(requests)
    handles = (_Handle * len(requests))(*(r._handle for r in requests))
    index = ctypes.c_size_t(len(requests))
    error = error_of(lib.plait_wait_any, handles, len(requests), ctypes.byref(index))
    if index.value == len(requests):
        if error is not None:
            raise error
        return None
    request = requests[index.value]
    request._handle = handles[index.value]
    try:
        request._see(error)
    except BaseException as told:
        told.index = index.value
        raise
    return index.value


def wait_all(requests):
    """Wait for all of them; their results. The first error in their order is raised when every one has ended."""
    results, first = [], None
    for request in requests:
        try:
            results.append(request.wait())
        except Exception as error:  # pylint: disable=broad-except
            first = first or error
    if first is not None:
        raise first
    return results
