# SPDX-License-Identifier: BSD-3-Clause
"""Collective communication of NumPy arrays between processes and threads, on one host or several.

    with plait.Comm.create(nrank, rank, id) as comm:     # id: plait.unique_id() of one rank, or plait.launch().id
        comm.allreduce(gradient, op="avg")               # in place; or out=
        r = comm.allreduce(x, wait=False)                # a plait.Request; r.wait() has the result

Calls release the interpreter's lock, so threads can be ranks as well as processes. The library is the one inside this
package, if it has one, else the one that the loader finds; PLAIT_LIBRARY is the path of another one.
"""
try:
    from ._library import VERSION as __version__  # of this package; version() is the library's
    from ._library import lib as _lib
except ImportError as _error:
    raise ImportError(str(_error)) from None  # one line, without the frames in which it was found out
from ._arrays import zeros
from ._comm import Comm, Launch, launch, unique_id
from ._elastic import Elastic
from ._errors import BY_NAME as _BY_NAME
from ._errors import Error
from ._fusion import Fusion
from ._group import group
from ._interrupt import watch as _watch
from ._optim import LossScale, Optim, Part, Schedule
from ._request import Persistent, Request, wait_all, wait_any
from ._simulate import Forecast, Machine, Prediction, simulate, training_ready

_watch()
globals().update({c.__name__: c for c in _BY_NAME.values()})

__all__ = ['Comm', 'Elastic', 'Error', 'Forecast', 'Fusion', 'Launch', 'LossScale', 'Machine', 'Optim', 'Part',
           'Persistent', 'Prediction', 'Request', 'Schedule', 'group', 'launch', 'simulate', 'training_ready',
           'unique_id', 'version', 'wait_all', 'wait_any', 'zeros'] + [c.__name__ for c in _BY_NAME.values()]


def version():
    """The version of the loaded library."""
    return _lib.plait_version().decode()
