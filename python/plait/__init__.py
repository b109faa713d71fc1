# SPDX-License-Identifier: BSD-3-Clause
"""Collective communication of NumPy arrays between the processes and threads of a machine.

    with plait.Comm.create(nrank, rank, id) as comm:     # id: plait.unique_id() of one rank
        comm.allreduce(gradient, op="avg")               # in place; or out=

Calls release the interpreter's lock, so threads can be ranks as well as processes. Set PLAIT_LIBRARY to the path of
libplait.so where the loader does not find it.
"""
from ._arrays import zeros
from ._comm import Comm, unique_id
from ._errors import BY_NAME as _BY_NAME
from ._errors import Error
from ._library import lib as _lib

globals().update({c.__name__: c for c in _BY_NAME.values()})

__all__ = ['Comm', 'Error', 'unique_id', 'version', 'zeros'] + [c.__name__ for c in _BY_NAME.values()]


def version():
    """The version of the library that was loaded."""
    return _lib.plait_version().decode()
