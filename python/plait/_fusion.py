# SPDX-License-Identifier: BSD-3-Clause
"""Tensor fusion: gradients are reduced in a few buckets during the backward pass."""
import collections.abc
import ctypes
import operator
import warnings

import numpy

from . import _arrays
from ._errors import ArgError, error_of
from ._library import ROUNDS, FusionHandle, FusionOptions, FusionResult, Layout, Tensor, lib

NO_TYPE = 12  # PLAIT_NDTYPE
THRESHOLD, CUTS, CUBIC = range(3)
_forgotten = []  # arrays that the library may use as long as the process lives


def layout_of(name, layout):
    """An int is a threshold in bytes, a list of tensor numbers are cuts; or "cubic"."""
    if layout == 'cubic':
        return Layout(rule=CUBIC), None
    several = isinstance(layout, (list, tuple))
    try:
        numbers = [operator.index(n) for n in (layout if several else [layout])]
    except TypeError:
        numbers = [-1]
    if any(not 0 <= n < 1 << (32 if several else 64) for n in numbers):
        raise ArgError(f'{name}: layout is {layout!r}; it must be bytes, a list of the numbers of the first tensors of '
                       'buckets, or "cubic"')
    if not several:
        return Layout(rule=THRESHOLD, threshold=numbers[0]), None
    cuts = (ctypes.c_uint32 * len(numbers))(*numbers)
    return Layout(rule=CUTS, cuts=cuts, ncut=len(cuts)), cuts


class Fusion:
    """Gradients that are summed over a comm's ranks in buckets. Made by comm.fusion(); see <plait/fusion.h>.

        f = comm.fusion({'fc.weight': ((1000, 2048), 'float32'), ...}, op='avg')     in backward order
        f['fc.weight'][:] = gradient; f.ready('fc.weight')                           when it is ready
        f.wait_all()                                                                 f['fc.weight'] is the average

    A tensor whose array was given keeps its gradient there; else f[name] is an array in its bucket. Arrays in buckets
    outlive destroy() with their values: the buckets are freed with the last array.
    """

    def __init__(self, comm, tensors, options):
        self._comm, self._handle = comm, ctypes.POINTER(FusionHandle)()
        if not isinstance(tensors, collections.abc.Mapping):
            raise TypeError(f'fusion: tensors is of type {type(tensors).__name__}; it must be a dict, '
                            '{name: array, or (shape, dtype)}')
        self._names = {name: i for i, name in enumerate(tensors)}
        self._arrays, self._shapes, self._given = {}, [], set()
        rows = (Tensor * len(tensors))()
        for row, (name, what) in zip(rows, tensors.items()):
            self._describe(row, name, what)
        options.tensors, options.ntensor = rows, len(rows)
        lib.plait_fusion_create(comm, ctypes.byref(options), ctypes.byref(self._handle))
        self._find()

    def _describe(self, row, name, what):
        if not isinstance(name, str):
            raise TypeError(f'fusion: name {name!r} of a tensor is of type {type(name).__name__}; it must be a str')
        if isinstance(what, numpy.ndarray):
            _arrays.check('fusion', name, what, write=True)
            self._arrays[name] = what
            self._given.add(name)
            shape, dtype = what.shape, what.dtype
            row.data = _arrays.address(what)
        else:
            if not isinstance(what, (tuple, list)) or len(what) != 2:
                raise TypeError(f'fusion: tensor {name} is {what!r}; it must be a numpy.ndarray, or (shape, dtype)')
            shape, dtype = what[0], numpy.dtype(what[1])
            shape = tuple(shape) if hasattr(shape, '__iter__') else (operator.index(shape),)
        self._shapes.append((shape, dtype))
        row.name = _arrays.text('fusion', 'name of a tensor', name)
        row.count = int(numpy.prod(shape, dtype=numpy.uint64))
        row.type = lib.plait_dtype_find(dtype.name.encode())
        if row.type < 0:
            raise ArgError(f'fusion: dtype {dtype} of {name} is none of the library\'s')

    def _find(self):
        """Arrays of the gradients that lie in buckets."""
        for name, i in self._names.items():
            shape, dtype = self._shapes[i]
            if name not in self._given:
                self._arrays[name] = _arrays.shared(lib.plait_fusion_data(self._handle, i), shape, dtype)

    def _open(self, name):
        if not self._handle:
            raise ArgError(f'{name}: the fusion was destroyed')
        return self._handle

    def _number(self, name, tensor):
        if tensor not in self._names:
            raise ArgError(f'{name}: there is no tensor {tensor!r}')
        return self._names[tensor]

    def __getitem__(self, tensor):
        self._open('fusion')
        self._number('fusion', tensor)
        return self._arrays[tensor]

    def ready(self, tensor):
        """This gradient is complete. Returns at once."""
        lib.plait_fusion_ready(self._open('ready'), self._number('ready', tensor))

    def skip(self, tensor):
        """This rank has no such gradient in this step."""
        lib.plait_fusion_skip(self._open('skip'), self._number('skip', tensor))

    def wait(self, tensor):
        """Wait for the sum of this gradient. Returns its array."""
        lib.plait_fusion_wait(self._open('wait'), self._number('wait', tensor))
        return self._arrays[tensor]

    def wait_all(self):
        """Wait for all that are ready. With check=True, False means infinities or NaNs; the same on all ranks."""
        result = FusionResult()
        lib.plait_fusion_wait_all(self._open('wait_all'), ctypes.byref(result))
        return bool(result.finite)

    def set_scale(self, before=1.0, after=1.0):
        """Factors that gradients are multiplied by before the sum, and sums after it."""
        lib.plait_fusion_set_scale(self._open('set_scale'), before, after)

    def trace(self, path):
        """Write a trace, for ui.perfetto.dev."""
        lib.plait_fusion_trace(self._open('trace'), _arrays.text('trace', 'path', str(path)))

    def abort(self, reason=None):
        """Make it fail on all ranks, with this reason; from any thread."""
        lib.plait_comm_abort(lib.plait_fusion_comm(self._open('abort')), _arrays.reason(reason))

    def destroy(self):
        """Wait for operations in flight, and leave. Arrays in buckets keep their values."""
        handle, self._handle = self._handle, ctypes.POINTER(FusionHandle)()
        error = error_of(lib.plait_fusion_destroy, handle)
        self._arrays = {}
        if error is not None:
            raise error

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            self.destroy()
        except Exception:
            if kind is None:
                raise  # else the first error is on its way

    def __del__(self):
        if getattr(self, '_handle', None):
            _forgotten.append(self._arrays)
            warnings.warn('a fusion was not destroyed; use `with` or destroy()', ResourceWarning)


# pylint: disable-next=redefined-builtin
def options_of(op, layout, payload, round, reproducible, check, progress, trace, name):
    """The library's options, and what they point to."""
    rule, kept = layout_of('fusion', layout)
    kind = NO_TYPE if payload is None else lib.plait_dtype_find(_arrays.text('fusion', 'payload', payload))
    if kind < 0:
        raise ArgError(f'fusion: payload is {payload!r}; it must be "float16", "bfloat16" or None')
    if round not in ROUNDS:
        raise ArgError(f'fusion: round is {round!r}; it must be one of {", ".join(ROUNDS)}')
    number = lib.plait_op_find(_arrays.text('fusion', 'op', op))
    if number < 0:
        raise ArgError(f'fusion: op is {op!r}; it must be "sum" or "avg"')
    options = FusionOptions(size=ctypes.sizeof(FusionOptions), name=_arrays.text('fusion', 'name', name),
                            layout=rule, op=number, payload=kind, round=ROUNDS.index(round), weights=NO_TYPE,
                            reproducible=bool(reproducible), check=bool(check), progress=bool(progress),
                            trace=bool(trace))
    return options, kept
