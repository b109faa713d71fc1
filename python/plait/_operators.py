# SPDX-License-Identifier: BSD-3-Clause
"""Operators: the library's by name, and functions of NumPy arrays."""
import ctypes
import weakref

import numpy

from . import _arrays
from ._errors import ArgError
from ._library import Combine, UserOp, lib

# The library calls back in any thread that waits, with the context of the operation, which names the function.
_functions = weakref.WeakValueDictionary()


@Combine
def _combine(inout, operand, count, _type, context):
    function = _functions[context]
    try:
        a, b = (numpy.asarray(_arrays.Memory(at, (count,), function.dtype)) for at in (inout, operand))
        a[...] = function.function(a, b)
    except BaseException as error:  # pylint: disable=broad-except
        function.error = function.error or error  # nothing may leave through the library


class Function:
    """A function f(a, b) of two arrays as the operator of one call. Keep it until the operation has ended."""

    def __init__(self, function, dtype, commutative):
        self.function, self.dtype, self.error = function, dtype, None
        self.struct = UserOp(ctypes.sizeof(UserOp), _combine, id(self), bool(commutative))
        _functions[id(self)] = self


def find(name, op):
    """The `enum plait_op` of "sum" and so on, or of a function."""
    value = lib.plait_op_find(b'user' if callable(op) else _arrays.text(name, 'op', str(op)))
    if value < 0 or op == 'user':
        names = (lib.plait_op_name(v).decode() for v in range(64))
        raise ArgError(f'{name}: op is {op!r}; it must be a function of two arrays or one of '
                       f'{", ".join(n for n in names if n not in ("?", "user"))}')
    return value
