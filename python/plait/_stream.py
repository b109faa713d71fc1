# SPDX-License-Identifier: BSD-3-Clause
"""Host streams: work that a thread does in order."""
import ctypes
import itertools
import warnings

from . import _interrupt
from ._errors import ArgError, error_of
from ._library import OnStream, StreamHandle, lib

_numbers, _waiting = itertools.count(1), {}  # what is still to be called: (stream, function)


@OnStream
def _call(number):
    stream, function = _waiting.pop(number)
    try:
        function()
    except BaseException as error:  # pylint: disable=broad-except
        stream._error = stream._error or error  # nothing may leave through the library


class Stream:
    """A queue of functions and operations that a thread does in order: comm.allreduce(x, stream=s) returns at once, and
    begins when everything before it on the stream has ended.

        with plait.Stream() as s:
            s.call(fill)
            comm.allreduce(x, stream=s)
            s.synchronize()                # x is valid
    """

    def __init__(self):
        self._handle, self._error = ctypes.POINTER(StreamHandle)(), None
        _interrupt.watch()
        lib.plait_stream_create(ctypes.byref(self._handle))

    def _open(self, name):
        if not self._handle:
            raise ArgError(f'{name}: the stream was destroyed')
        return self._handle

    def call(self, function):
        """Call function() in its turn, in the stream's thread. It may not wait for this stream."""
        handle, number = self._open('call'), next(_numbers)
        _waiting[number] = self, function
        error = error_of(lib.plait_stream_call, handle, _call, number)
        if error is not None:
            del _waiting[number]
            raise error

    def _after(self, operation, _failed=False):
        """Keep what it uses until its turn is over."""
        self.call(lambda: operation.end(failed=True))

    def synchronize(self):
        """Wait until everything on it has ended. The first error since the last time is raised."""
        self._tell(error_of(lib.plait_stream_synchronize, self._open('synchronize')))

    def query(self):
        """Has everything on it ended?"""
        done = ctypes.c_int()
        lib.plait_stream_query(self._open('query'), ctypes.byref(done))
        return bool(done)

    def destroy(self):
        """Wait as synchronize() does, then end its thread."""
        error = error_of(lib.plait_stream_destroy, self._open('destroy'))
        self._handle = ctypes.POINTER(StreamHandle)()
        self._tell(error)

    def _tell(self, error):
        first, self._error = self._error or error, None
        if first is not None:
            raise first

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if not self._handle:
            return
        try:
            self.destroy()
        except Exception:
            if kind is None:
                raise  # else the first error is on its way

    def __del__(self):
        if getattr(self, '_handle', None):
            warnings.warn('a stream was not destroyed; use `with` or destroy()', ResourceWarning)
