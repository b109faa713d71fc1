# SPDX-License-Identifier: BSD-3-Clause
"""Signal handlers run while the library waits: it calls back about ten times a second, and Python runs them then.

A handler that raises, as that of Ctrl-C does, ends the call: the library aborts the comms that it waits for, and the
call raises that exception instead of their error.
"""
import atexit
import threading

from ._library import Interrupted, lib

_raised = None  # in the main thread, whose handlers are run


def _hear():
    """A generator, since a handler runs where it resumes, inside its `try`; in a function it could run before that."""
    global _raised
    ends = 0
    while True:
        try:
            while True:
                yield ends
                ends = 0
        except GeneratorExit:
            return
        except BaseException as error:  # pylint: disable=broad-except
            _raised, ends = error, 1


_heard = _hear()
next(_heard)
_ask = Interrupted(_heard.__next__)
_none = Interrupted()


def _is_main():
    return threading.get_ident() == threading.main_thread().ident


def watch():
    """Let calls of this thread run signal handlers, if it is the main thread: Python runs them on no other."""
    if _is_main():
        lib.plait_interrupt_set(_ask)


def take():
    """The exception that a handler raised during this thread's call, returned once; or None."""
    global _raised
    if _raised is None or not _is_main():
        return None
    raised, _raised = _raised, None
    return raised


atexit.register(lib.plait_interrupt_set, _none)  # no call back into an interpreter that ends
