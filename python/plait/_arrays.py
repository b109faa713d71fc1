# SPDX-License-Identifier: BSD-3-Clause
"""NumPy arrays as the library's buffers, and the library's memory as NumPy arrays."""
import ctypes
import math

import numpy

from ._errors import ArgError
from ._library import lib


class Memory:
    """Bytes at an address, for numpy.asarray(). The array keeps this object alive."""

    def __init__(self, address, shape, dtype):
        self.__array_interface__ = {'data': (address, False), 'shape': shape, 'typestr': dtype.str, 'version': 3}


class LibraryMemory(Memory):
    """Library memory, freed with this object. take(..., out) allocates it, like plait_mem_alloc() and
    plait_mem_share(); it begins at `address`, or at the result."""

    def __init__(self, shape, dtype, take, argument, address=None):
        start = ctypes.c_void_p()
        take(argument, ctypes.byref(start))
        self._start, self._free = start.value, lib.plait_mem_free
        super().__init__(self._start if address is None else address, shape, dtype)

    def __del__(self):
        if hasattr(self, '_free'):
            self._free(self._start)


def shared(address, shape, dtype):
    """An array in library memory of another object, which is kept until the last such array is gone."""
    return numpy.asarray(LibraryMemory(shape, dtype, lib.plait_mem_share, address, address))


def zeros(shape, dtype=float):
    """An array of zeros in library memory, which other processes read in place; freed with the last array of it."""
    shape = tuple(map(int, shape)) if hasattr(shape, '__iter__') else (int(shape),)
    if any(n < 0 for n in shape):
        raise ArgError(f'zeros: shape {shape} has a negative size')
    dtype = numpy.dtype(dtype)
    if dtype.hasobject:
        raise ArgError(f'zeros: dtype {dtype} holds Python objects, which other processes cannot read')
    bytes_ = max(1, math.prod(shape) * dtype.itemsize)
    return numpy.asarray(LibraryMemory(shape, dtype, lib.plait_mem_alloc, bytes_))


def address(array):
    return None if array is None else array.ctypes.data


def text(name, what, value):
    """A str as the library takes it, or None. "\\0" is refused, since it would end the text."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f'{name}: {what} is {value!r}, of type {type(value).__name__}; it must be a str')
    if '\0' in value:
        raise ArgError(f'{name}: {what} is {value!r}; it must be without "\\0"')
    return value.encode()


def reason(value):
    """Why a comm is aborted, as the library takes it; any object, or None."""
    return None if value is None else str(value).replace('\0', '\ufffd').encode(errors='replace')


def check(name, what, array, write=False):
    """May the library use this array?"""
    if not isinstance(array, numpy.ndarray):
        raise TypeError(f'{name}: {what} is of type {type(array).__name__}; it must be a numpy.ndarray')
    if not array.flags.c_contiguous:
        raise ArgError(f'{name}: {what} is not contiguous (shape {array.shape}, strides {array.strides}); '
                       'use numpy.ascontiguousarray()')
    if not array.dtype.isnative:
        raise ArgError(f'{name}: {what} has dtype {array.dtype.str} in foreign byte order; use .astype() first')
    if write and not array.flags.writeable:
        raise ArgError(f'{name}: {what} is read-only, but the result goes there; give an array that can be written')


def type_of(name, arrays, dtype):
    """The `enum plait_dtype` of {argument: array}. `dtype` names what NumPy has no name for: "bfloat16"."""
    (what, first), *rest = arrays.items()
    for other, array in rest:
        if array.dtype != first.dtype:
            raise ArgError(f'{name}: {what} has dtype {first.dtype}, but {other} has {array.dtype}; they must be equal')
    wanted = dtype if isinstance(dtype, str) else numpy.dtype(first.dtype if dtype is None else dtype).name
    value = lib.plait_dtype_find(text(name, 'dtype', wanted))
    if value < 0:
        raise ArgError(f'{name}: dtype {wanted} of {what} is none of the library\'s: {", ".join(_types())}')
    if dtype is not None and not _holds(first.dtype, value):
        raise ArgError(f'{name}: dtype={dtype!r}, but {what} has dtype {first.dtype}; it must be an array of that type '
                       f'or of unsigned integers of {lib.plait_dtype_size(value)} bytes')
    return value


def _holds(dtype, value):
    same = dtype.name == lib.plait_dtype_name(value).decode()
    return same or (dtype.kind in 'uV' and dtype.itemsize == lib.plait_dtype_size(value))


def _types():
    names = (lib.plait_dtype_name(value).decode() for value in range(256))
    return [name for name in names if name != '?']


def scalar(name, scale, dtype):
    """One element of the arrays' dtype, for premulsum."""
    if dtype is None:
        raise ArgError(f'{name}: scale is {scale!r}, but a call without data has nothing to scale')
    if dtype.kind in 'uiV' and numpy.asarray(scale).dtype.kind not in 'uiV':
        raise ArgError(f'{name}: scale is {scale!r}, but the arrays are of {dtype}; give an element of that type '
                       '(of a dtype that NumPy lacks: its bits)')
    try:
        return numpy.full(1, scale, dtype)
    except (OverflowError, TypeError, ValueError) as error:
        raise ArgError(f'{name}: scale is {scale!r}, which is not one element of {dtype}: {error}') from error


def late_scalar(name, scale, dtype):
    """An array whose one element is read when the operation runs."""
    if not isinstance(scale, numpy.ndarray) or scale.size != 1 or scale.dtype != dtype:
        raise ArgError(f'{name}: scale is {scale!r}; with scale_when="late" it is a NumPy array of one element '
                       f'of {dtype}')
    return scale


class Blocks:
    """Start and length of each part of an array, in elements."""

    def __init__(self, name, what, counts, starts, nrank):
        self.counts = self._read(name, what, counts, nrank)
        self.given = None if starts is None else self._read(name, what.replace('counts', 'starts'), starts, nrank)
        ends = numpy.cumsum(self.counts)
        self.starts = ends - self.counts if self.given is None else self.given
        self._name, self._what = name, what

    @staticmethod
    def _read(name, what, values, nrank):
        array = numpy.asarray(values)
        if array.shape != (nrank,) or array.dtype.kind not in 'ui':
            raise ArgError(f'{name}: {what} is {values!r}; it must be {nrank} whole numbers, one for each rank')
        if (array < 0).any():
            raise ArgError(f'{name}: {what} is {values!r}; no number may be negative')
        return numpy.ascontiguousarray(array, dtype=numpy.uintp)

    def fit(self, what, array):
        for r, (start, count) in enumerate(zip(self.starts.tolist(), self.counts.tolist())):
            if start + count > array.size:
                raise ArgError(f'{self._name}: with {self._what} the part of rank {r} ends at element {start + count}, '
                               f'but {what} has {array.size}')

    def part(self, array, rank):
        start = int(self.starts[rank])
        return array.reshape(-1)[start:start + int(self.counts[rank])]
