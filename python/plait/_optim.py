# SPDX-License-Identifier: BSD-3-Clause
"""The optimiser's step, loss scales and schedules (optim.h) on NumPy arrays."""
import collections
import ctypes
import math

import numpy

from . import _arrays
from ._errors import ArgError
from ._library import (DECAY_RULES, OPTIM_METHODS, OPTIM_PLAIN, LossScaleStruct, OptimHandle, OptimOptions, OptimPart,
                       OptimResult, OptimStep, ScheduleStruct, lib)

Step = collections.namedtuple('Step', 'finite norm')


def _named(what, names, name):
    if name not in names:
        raise ArgError(f'{what} is {name!r}; use {", ".join(names)}')
    return names.index(name)


class Part:
    """A tensor, or a part of one.

    master    float32 weights; gradient of the same size, float32 or fewer bits
    copy      written in every step: the weights for the next pass
    plain     biases, batch norm: no decay, no trust ratio
    tensor    its number; None: its place in the list
    dtype, copy_dtype  what NumPy has no name for: "bfloat16" of uint16 arrays
    """

    def __init__(self, master, gradient, copy=None, plain=False, tensor=None, dtype=None, copy_dtype=None):
        for what, array in (('master', master), ('gradient', gradient), ('copy', copy)):
            if array is not None:
                _arrays.check('Part', what, array, write=what != 'gradient')
                if array.size != master.size:
                    raise ArgError(f'Part: {what} has {array.size} elements, master {master.size}; they must be equal')
        if master.dtype != numpy.float32:
            raise ArgError(f'Part: master has dtype {master.dtype}; it must be float32')
        self.tensor, self._arrays = tensor, (master, gradient, copy)
        self._struct = OptimPart(
            0, master.size, _arrays.address(gradient), _arrays.type_of('Part', {'gradient': gradient}, dtype),
            _arrays.address(master), _arrays.address(copy),
            0 if copy is None else _arrays.type_of('Part', {'copy': copy}, copy_dtype), OPTIM_PLAIN if plain else 0)


class Optim:
    """LARS or SGD with momentum on fp32 master weights; include/plait/optim.h has the formulas.

        optim = plait.Optim([plait.Part(w, g) for w, g in tensors], method='lars', momentum=0.9)
        finite, norm = optim.step(lr=0.1, factor=1 / scale)

    ntensor     with comm: of all ranks; else as many as parts
    norm_decay  None: as decay
    comm        sharded: norms are of the parts of all ranks, and every rank calls step()
    scale       a LossScale: step() divides factor by it, then updates it
    """

    def __init__(self, parts, method='lars', momentum=0.9, nesterov=False, lr_in_momentum=True, decay=5e-5, eta=1e-3,
                 eps=0.0, norm_decay=None, check=True, comm=None, ntensor=None, scale=None):
        self._parts, self._comm, self._scale = list(parts), comm, scale
        structs = (OptimPart * max(1, len(self._parts)))()
        for k, part in enumerate(self._parts):
            if not isinstance(part, Part):
                raise TypeError(f'Optim: parts[{k}] is {part!r}, of type {type(part).__name__}; '
                                'it must be a plait.Part')
            structs[k] = part._struct
            structs[k].tensor = k if part.tensor is None else part.tensor
        options = OptimOptions(
            ctypes.sizeof(OptimOptions), structs, len(self._parts), len(self._parts) if ntensor is None else ntensor,
            _named('Optim: method', OPTIM_METHODS, method), momentum, nesterov, lr_in_momentum, decay, eta, eps,
            -1 if norm_decay is None else norm_decay, check, None if comm is None else comm._handle, None,
            None if scale is None else ctypes.pointer(scale._struct))
        self._free, self._handle = lib.plait_optim_destroy, ctypes.POINTER(OptimHandle)()
        lib.plait_optim_create(ctypes.byref(options), ctypes.byref(self._handle))

    def __del__(self):
        if getattr(self, '_handle', None):
            self._free(self._handle)

    def step(self, lr, factor=1.0, decay=1.0, squares=None):
        """One step. `finite` is False when a norm was infinite or NaN: then no rank changed anything."""
        if squares is not None:
            squares = numpy.ascontiguousarray(squares, dtype=numpy.float64)
            if squares.shape != (len(self._parts),):
                raise ArgError(f'step: squares has shape {squares.shape}; it must be ({len(self._parts)},)')
        step, result = OptimStep(ctypes.sizeof(OptimStep), lr, factor, decay, _arrays.address(squares)), OptimResult()
        lib.plait_optim_step(self._handle, ctypes.byref(step), ctypes.byref(result))
        return Step(bool(result.finite), result.norm)

    def momentum(self, part):
        """The momentum of this part, for saving and restoring; valid as long as the optimiser."""
        at = lib.plait_optim_momentum(self._handle, part) if 0 <= part < len(self._parts) else None
        if at is None:
            raise ArgError(f'momentum: part is {part}; there are {len(self._parts)}')
        array = numpy.asarray(_arrays.Memory(at, (self._parts[part]._arrays[0].size,), numpy.dtype(numpy.float32)))
        array.base._optim = self
        return array


class LossScale:
    """`scale` multiplies the loss; update() raises or lowers it. interval 0: constant."""

    def __init__(self, scale=65536.0, growth=2.0, backoff=0.5, least=1.0, most=16777216.0, interval=2000):
        self._struct = LossScaleStruct(scale, growth, backoff, least, most, interval, 0, 0)

    @property
    def scale(self):
        return self._struct.scale

    @property
    def skipped(self):
        """Steps that were not finite."""
        return self._struct.skipped

    def update(self, finite):
        """After a step of an Optim without this scale: step.finite."""
        lib.plait_loss_scale_update(ctypes.byref(self._struct), finite)


class Schedule:
    """schedule(step): the learning rate: a warm-up, then base with a decay rule ("none", "polynomial", "steps",
    "cosine")."""

    def __init__(self, base, warmup=0.0, start=0.0, rule='none', steps=1.0, power=2.0, end=0.0, milestones=(),
                 gamma=0.1):
        self._milestones = (ctypes.c_double * max(1, len(milestones)))(*milestones)
        self._struct = ScheduleStruct(
            ctypes.sizeof(ScheduleStruct), base, warmup, start, _named('Schedule: rule', DECAY_RULES, rule), steps,
            power, end, ctypes.addressof(self._milestones), len(milestones), gamma)

    def __call__(self, step):
        value = lib.plait_schedule_at(ctypes.byref(self._struct), step)
        if math.isnan(value):
            raise ArgError(lib.plait_last_error().decode(errors='replace'))
        return value
