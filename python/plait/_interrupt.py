# SPDX-License-Identifier: BSD-3-Clause
"""Signals are heard while the library waits: it calls back some ten times a second, and Python runs their handlers then.

What a handler raises, as Ctrl-C's does, ends the call: the library aborts the comms that it waits for, and the exception is
raised in the place of their error.
"""
import atexit
import threading

from ._library import Interrupted, lib

_raised = None  # in the main thread, whose handlers are run


def _hear():
    """A generator, as handlers run where one goes on, inside its `try`; where a function begins they run before that."""
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
    """The calls of this thread hear signals, if it is the main one: no other runs their handlers."""
    if _is_main():
        lib.plait_interrupt_set(_ask)


def take():
    """What a handler has raised during this thread's call, once; or None."""
    global _raised
    if _raised is None or not _is_main():
        return None
    raised, _raised = _raised, None
    return raised


atexit.register(lib.plait_interrupt_set, _none)  # no call back into an interpreter that ends
