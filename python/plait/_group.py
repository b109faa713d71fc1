# SPDX-License-Identifier: BSD-3-Clause
"""Calls that start together."""
import contextlib
import threading

from ._errors import error_of
from ._library import lib


class _Group(threading.local):
    """This thread's group: whom to tell when it ends (None outside of groups), and its first exception."""

    members = None
    error = None


_group = _Group()


def join(told):
    """Call told(failed) when this thread's group has ended. Returns whether there is a group."""
    if _group.members is None:
        return False
    _group.members.append(told)
    return True


@contextlib.contextmanager
def group():
    """Calls inside start together at its end, and do not wait for each other. Their results are valid after it.

        with plait.group():
            for r in range(comm.nrank):
                comm.send(mine[r], r)
                comm.recv(theirs[r], r)

    Collectives, messages and new comms, of any comms: so one thread may hold several ranks. Groups may be nested; the
    outermost counts. The end raises the first error, with a line for each call that failed. When the library refuses a
    call, or an exception leaves the block, nothing of it is begun.
    """
    outermost = _group.members is None
    lib.plait_group_start()
    if outermost:
        _group.members, _group.error = [], None
    try:
        yield
    except BaseException as error:
        if _group.error is None:
            _group.error = error
            error_of(lib.plait_comm_create, None, None)  # a call that is refused: nothing is begun
        raise
    finally:
        failed = error_of(lib.plait_group_end)
        if outermost:
            members, _group.members = _group.members, None
            _tell(members, failed, _group.error)


def _tell(members, failed, inside):
    first = inside or failed
    for told in members:
        try:
            told(failed is not None)
        except BaseException as error:  # pylint: disable=broad-except
            first = first or error
    if first is not None:
        raise first
