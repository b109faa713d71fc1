# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of other packages, such as PyTorch's tensors, as NumPy arrays of the same memory, by DLPack.

numpy.from_dlpack() makes read-only arrays before NumPy 2, and refuses bfloat16, so the structs are read here. A capsule
that is not renamed frees what it holds when the last array of it is gone.
"""
import ctypes
import functools
import inspect

import numpy

from ._errors import ArgError

_HOST = (1, 3)  # DLDeviceType: memory of the host, or pinned for CUDA
_DEVICES = {2: 'a GPU (CUDA)', 10: 'a GPU (ROCm)', 13: 'a GPU (CUDA, managed)'}
_KINDS = {0: 'i', 1: 'u', 2: 'f', 4: 'u', 5: 'c', 6: 'b'}  # DLDataTypeCode; 4 is bfloat16
_BFLOAT = 4

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


class Tensor(ctypes.Structure):
    """`DLTensor`, with which a `DLManagedTensor` begins."""

    _fields_ = [('data', ctypes.c_void_p), ('device', ctypes.c_int32), ('number', ctypes.c_int32),
                ('ndim', ctypes.c_int32), ('code', ctypes.c_uint8), ('bits', ctypes.c_uint8),
                ('lanes', ctypes.c_uint16), ('shape', ctypes.POINTER(ctypes.c_int64)),
                ('strides', ctypes.POINTER(ctypes.c_int64)), ('offset', ctypes.c_uint64)]


class View(numpy.ndarray):
    """A NumPy array of another package's memory; `source` is what was given, `dtype_name` a type that NumPy lacks."""

    def __array_finalize__(self, _base):
        self.source = self.dtype_name = None


class _Memory:
    """What numpy.asarray() takes, and keeps with the array."""

    def __init__(self, capsule, tensor):
        size = tensor.bits // 8
        strides = tuple(tensor.strides[i] * size for i in range(tensor.ndim)) if tensor.strides else None
        self.capsule = capsule
        self.__array_interface__ = {
            'data': (tensor.data + tensor.offset, False), 'shape': tuple(tensor.shape[:tensor.ndim]),
            'strides': strides, 'typestr': f'{"|" if size == 1 else "<"}{_KINDS[tensor.code]}{size}',
            'version': 3}


def view(name, what, x):
    """x itself, if it is not by DLPack, else a View of it."""
    if isinstance(x, numpy.ndarray) or not hasattr(x, '__dlpack_device__'):
        return x
    device, number = x.__dlpack_device__()
    if device not in _HOST:
        raise ArgError(f'{name}: {what} is in the memory of {_DEVICES.get(int(device), f"device type {int(device)}")}, '
                       f'number {number}; the Python package takes memory of the host: copy it there, by .cpu() or '
                       'cupy.asnumpy(), or call the C library (docs/gpu.md)')
    try:
        capsule = x.__dlpack__()
    except (BufferError, RuntimeError, TypeError) as error:  # such as a tensor that needs its gradient
        raise ArgError(f'{name}: {what} of type {type(x).__name__} is not given: {error}') from None
    tensor = Tensor.from_address(_pointer(capsule, b'dltensor'))
    if tensor.code not in _KINDS or tensor.lanes != 1 or tensor.bits % 8:
        raise ArgError(f'{name}: {what} of type {type(x).__name__} has elements that NumPy lacks (DLPack: code '
                       f'{tensor.code}, {tensor.bits} bits, {tensor.lanes} lanes); convert it')
    empty = 0 in tensor.shape[:tensor.ndim]  # then there may be no address
    memory = numpy.empty(tuple(tensor.shape[:tensor.ndim]), f'{_KINDS[tensor.code]}{tensor.bits // 8}') if empty \
        else numpy.asarray(_Memory(capsule, tensor))
    result = memory.view(View)
    result.source, result.dtype_name = x, 'bfloat16' if tensor.code == _BFLOAT else None
    return result


def source(x):
    """What the caller gave, of which this is a view; else x."""
    given = getattr(x, 'source', None)
    return x if given is None else given


def _taking(method):
    name, signature = method.__name__, inspect.signature(method)
    names = [n for n in list(signature.parameters)[1:] if n in ('x', 'out')]
    places = [list(signature.parameters).index(n) - 1 for n in names]  # "self" is none of the arguments

    @functools.wraps(method)
    def call(self, *arguments, **options):
        given = [(n, i, arguments[i] if i < len(arguments) else options.get(n)) for n, i in zip(names, places)]
        if all(x is None or type(x) is numpy.ndarray for _, _, x in given):  # pylint: disable=unidiomatic-typecheck
            return method(self, *arguments, **options)
        arguments = list(arguments)
        for n, i, x in given:
            x = view(name, n, x)
            if i < len(arguments):
                arguments[i] = x
            elif n in options:
                options[n] = x
            if getattr(x, 'dtype_name', None) and 'dtype' not in options:
                options['dtype'] = x.dtype_name
        return method(self, *arguments, **options)
    return call


def accept(comm):
    """Let each call of this class take arrays of other packages as x and out. What it returns is what was given."""
    for name, method in list(vars(comm).items()):
        if inspect.isfunction(method) and {'x', 'out'} & set(inspect.signature(method).parameters) and name[0] != '_':
            setattr(comm, name, _taking(method))
    return comm
