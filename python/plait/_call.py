# SPDX-License-Identifier: BSD-3-Clause
"""Calls of a communicator: their arguments, checked, and how they reach the library."""
import ctypes
import operator

from . import _arrays, _dlpack, _operators
from ._errors import HARMLESS, ArgError, error_of
from ._group import join
from ._library import ROUNDS, SCALE_WHEN, Call, lib
from ._request import Operation, Persistent, Request

FORMS = ('deadline', 'wait', 'persistent')
OPTIONS = ('algorithm', 'slice', 'round', 'reproducible', 'scale', 'scale_when', 'commutative', 'mark') + FORMS
_NO_OP = object()  # of a call that combines nothing; None is a wrong operator


def pointers(blocks):
    """Counts and starts as the library takes them."""
    return [None, None] if blocks is None else [blocks.counts, blocks.given]


def rounding(name, value):
    """The `enum plait_round` of "once" and so on."""
    if value not in ROUNDS:
        raise ArgError(f'{name}: round is {value!r}; it must be one of {", ".join(ROUNDS)}')
    return ROUNDS.index(value)


def _scalar(name, scale, when, dtype, call):
    """The scalar of premulsum, and when it is read."""
    if when not in SCALE_WHEN:
        raise ArgError(f'{name}: scale_when is {when!r}; it must be one of {", ".join(SCALE_WHEN)}')
    call.scale_when = SCALE_WHEN.index(when)
    return (_arrays.scalar if when == 'now' else _arrays.late_scalar)(name, scale, dtype)


class Caller:
    """What Comm needs for its calls; Comm sets the attributes."""

    # ---- Arguments --------------------------------------------------------------------------------

    def _open(self, name):
        if self._handle:
            return self._handle
        if self.nrank is None:
            raise ArgError(f'{name}: there is no comm: its group has not ended, or it failed')
        raise ArgError(f"{name}: comm '{self.name}' was destroyed")

    def _rank(self, name, what, value):
        """A rank of this comm; the library checks whether it is too large."""
        value = operator.index(value)
        if not 0 <= value < 1 << 32:
            raise ArgError(f'{name}: {what} is {value}, but the comm has ranks 0 to {self.nrank - 1}')
        return value

    @staticmethod
    def _input(name, x):
        _arrays.check(name, 'x', x)

    @staticmethod
    def _output(name, what, array):
        _arrays.check(name, what, array, write=True)

    def _result(self, name, x, out):
        """Where the result goes: `out`, or in place."""
        self._output(name, *(('x', x) if out is None else ('out', out)))
        return x if out is None else out

    @staticmethod
    def _same(name, what, array, other, base, times):
        if array.size != base.size * times:
            raise ArgError(f'{name}: {what} has {array.size} elements, but {other} has {base.size}; {what} must have '
                           + ('as many' if times == 1 else f'{times} times as many, a part for each rank'))

    def _part(self, name, what, array):
        """This rank's part of a whole."""
        if array.ndim == 0 or array.shape[0] % self.nrank != 0:
            raise ArgError(f'{name}: {what} has shape {array.shape}; its first dimension must be a multiple of '
                           f'{self.nrank}, to be cut into a part for each rank')
        n = array.shape[0] // self.nrank
        return array[self.rank * n:(self.rank + 1) * n]

    def _give(self, name, x, out, blocks=None):
        """x is the whole; `out` a part, or where this rank's part of x is."""
        self._input(name, x)
        self._result(name, x, out)
        if blocks is not None:
            blocks.fit('x', x)
        if out is None:
            out = self._part(name, 'x', x) if blocks is None else blocks.part(x, self.rank)
        self._fit(name, 'out', out, 'x', x, blocks)
        return x, out

    def _get(self, name, x, out, blocks=None):
        """x is a part and `out` the whole; or x is the whole, with this rank's part in its place."""
        self._input(name, x)
        whole = self._result(name, x, out)
        if blocks is not None:
            blocks.fit('x' if out is None else 'out', whole)
        if out is None:
            x = self._part(name, 'x', x) if blocks is None else blocks.part(x, self.rank)
        self._fit(name, 'x', x, 'out', whole, blocks)
        return x, whole

    def _fit(self, name, what, part, other, whole, blocks):
        """Check the size of this rank's part."""
        if blocks is None:
            self._same(name, other, whole, what, part, self.nrank)
        elif part.size != blocks.counts[self.rank]:
            raise ArgError(f'{name}: {what} has {part.size} elements, but counts[{self.rank}], of this rank, is '
                           f'{blocks.counts[self.rank]}')

    def _blocks(self, name, what, counts, starts):
        return _arrays.Blocks(name, what, counts, starts, self.nrank)

    # ---- Calling ----------------------------------------------------------------------------------

    def _failure(self):
        """The error of this failed comm, or None; from any thread."""
        with self._leaving:
            return error_of(lib.plait_comm_status, self._handle) if self._handle else None

    def _tells(self, error):
        """A call raises this."""
        self._told = self._told or not isinstance(error, HARMLESS)

    def _forget(self, request):
        self._requests.discard(request)

    @staticmethod
    def _call_of(name, options, allowed):
        for option in options:
            if option not in allowed:
                raise TypeError(f'{name}: there is no option {option!r}; there are {", ".join(allowed)}')
        if options.get('slice', 0) < 0:
            raise ArgError(f'{name}: slice is {options["slice"]}; it must be 0 (chosen by Plait) or more bytes')
        if not 0 <= options.get('mark', 0) < 1 << 32:
            raise ArgError(f'{name}: mark is {options["mark"]}; it must be 0 to 2**32 - 1')
        return Call(ctypes.sizeof(Call), algorithm=_arrays.text(name, 'algorithm', options.get('algorithm')),
                    slice=options.get('slice', 0),
                    round=rounding(name, options.get('round', 'default')),
                    reproducible=bool(options.get('reproducible', False)), deadline=options.get('deadline', 0),
                    persistent=bool(options.get('persistent', False)), mark=options.get('mark', 0))

    def _run(self, name, arrays, arguments, dtype=None, op=_NO_OP, rank=None, result=None, *, options,
             allowed=OPTIONS):
        """Call plait_NAME(comm, arguments..., type, op, rank, options) with the arguments that it has. Returns
        `result`, or a request, as the options say."""
        call, function, scale = self._call_of(name, options, allowed), None, options.get('scale')
        arrays = {what: array for what, array in arrays.items() if array is not None}
        arguments = [a if isinstance(a, int) else _arrays.address(a) for a in arguments]
        if arrays:
            arguments.append(_arrays.type_of(name, arrays, dtype))
            dtype = next(iter(arrays.values())).dtype
        if op is not _NO_OP:
            arguments.append(_operators.find(name, op))
        if callable(op):
            function = _operators.Function(op, dtype, options.get('commutative', False))
            call.user = ctypes.pointer(function.struct)
        elif 'commutative' in options:
            given = 'missing' if op is _NO_OP else repr(op)
            raise ArgError(f'{name}: commutative is given, but op is {given}; leave it out unless op is a function')
        if scale is not None:
            scale = _scalar(name, scale, options.get('scale_when', 'now'), dtype, call)
            call.scale = _arrays.address(scale)
        if rank is not None:
            arguments.append(self._rank(name, *rank))
        kind = Persistent if call.persistent else None if options.get('wait', True) else Request
        return self._begin(name, arguments, call, Operation(self, [*arrays.values(), scale], function,
                                                           _dlpack.source(result)), kind)

    def _begin(self, name, arguments, call, operation, kind):
        """Call plait_NAME(comm, arguments..., options). Returns its request of this kind, or without one its result."""
        request = None if kind is None else kind(operation)
        if request is not None:
            call.request = ctypes.pointer(request._handle)
        try:
            getattr(lib, 'plait_' + name)(self._open(name), *arguments, ctypes.byref(call))
        except BaseException as error:
            self._tells(error)
            operation.end(failed=True)
            raise
        if request is not None:
            self._requests.add(request)
            return request
        if not join(operation.end):
            operation.end()
        return operation.result
