# SPDX-License-Identifier: BSD-3-Clause
"""One exception for each status of the library: PLAIT_ERR_MISMATCH is plait.MismatchError."""
import builtins

from . import _interrupt
from ._library import FUNCTIONS, Status, lib


class Error(Exception):
    """An error of the library; its text names argument, value and remedy, or rank, operation and cause.

    status  the number, a negative `enum plait_status`
    name    "PLAIT_ERR_MISMATCH"
    """

    status = None
    name = None


# Where Python has an exception of the same meaning, ours is one of them.
_BUILTIN = {'PLAIT_ERR_ARG': ValueError, 'PLAIT_ERR_NOMEM': builtins.MemoryError,
            'PLAIT_ERR_TIMEOUT': builtins.TimeoutError}


def _make():
    """A class for each status that the library knows, by number."""
    classes = {}
    for status in range(-1, -128, -1):
        name = lib.plait_status_name(status).decode()
        if name == 'PLAIT_ERR_UNKNOWN':
            continue
        bases = (Error, _BUILTIN[name]) if name in _BUILTIN else (Error,)
        classes[status] = type(name[len('PLAIT_ERR_'):].title() + 'Error', bases, {
            '__doc__': lib.plait_status_text(status).decode(), '__module__': 'plait', 'status': status, 'name': name})
    return classes


CLASSES = _make()
BY_NAME = {c.name: c for c in CLASSES.values()}
ArgError = BY_NAME['PLAIT_ERR_ARG']
# After these nothing has happened. After the others the comm has failed, and the buffers are the library's.
HARMLESS = tuple(BY_NAME[name] for name in ('PLAIT_ERR_ARG', 'PLAIT_ERR_UNSUPPORTED', 'PLAIT_ERR_CONFIG'))


def _error(status):
    return CLASSES.get(status, Error)(lib.plait_last_error().decode(errors='replace')) if status < 0 else None


def _check(status, _function, _arguments):
    raised = _interrupt.take()
    if raised is not None:
        try:
            raise raised from _error(status)
        finally:
            del raised  # else frame and exception hold each other, and what the caller's frames hold
    if status < 0:
        raise _error(status)
    return status


for _name, (_result, _) in FUNCTIONS.items():
    if _result is Status:
        getattr(lib, _name).errcheck = _check


def error_of(function, *arguments):
    """The library's error in function(arguments), or the exception of a signal handler meanwhile; or None."""
    try:
        function(*arguments)
    except BaseException as error:  # pylint: disable=broad-except
        return error
    return None
