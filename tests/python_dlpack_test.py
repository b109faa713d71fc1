#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of other packages as buffers: by DLPack, in place, without copies."""
import ctypes
import gc
import weakref

import numpy
import plait
from plait import _dlpack

try:
    import torch
except ImportError:
    torch = None


class Other:
    """An array of another package, which has nothing but DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **_options):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return (1, 0)


class OnGpu(Other):
    """What CuPy's arrays say; nobody may ask it for its memory."""

    def __dlpack_device__(self):
        return (2, 3)

    def __dlpack__(self, **_options):
        raise AssertionError('asked for memory of a GPU')


class Shifted(Other):
    """An array that begins at an offset of what its struct points to, and has no strides."""

    def __dlpack__(self, **_options):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.shape = (ctypes.c_int64 * 1)(self.array.size - 2)
        self.struct = _dlpack.Tensor(self.array.ctypes.data, 1, 0, 1, 2, 64, 1, self.shape, None, 16)
        return new(ctypes.addressof(self.struct), b'dltensor', None)


def refused(call, *texts):
    try:
        call()
    except plait.ArgError as error:
        assert all(text in str(error) for text in texts), error
    else:
        raise AssertionError(f'not refused: {texts}')


def results_are_written_into_the_array_that_is_given(comm):
    for dtype in 'float64', 'float32', 'float16', 'int8', 'int32', 'uint64':
        x, out = Other(numpy.arange(6, dtype=dtype)), Other(numpy.zeros(6, dtype=dtype))
        assert comm.allreduce(x, out=out) is out and (out.array == numpy.arange(6)).all(), dtype
        assert comm.allreduce(x, op='premulsum', scale=3) is x and (x.array == 3 * numpy.arange(6)).all(), dtype


def parts_and_shapes_are_those_of_the_array(comm):
    whole = Other(numpy.arange(12.0).reshape(3, 4))
    part = comm.reduce_scatter(whole)
    assert part.shape == (3, 4) and part.ctypes.data == whole.array.ctypes.data
    x = Other(numpy.arange(12.0).reshape(3, 4)[1:, :2])
    refused(lambda: comm.allreduce(x), 'x is not contiguous (shape (2, 2), strides (32, 8))')


def requests_and_persistent_calls_return_the_array(comm):
    x, out = Other(numpy.ones(4)), Other(numpy.zeros(4))
    assert comm.allreduce(x, wait=False).wait() is x
    with comm.allreduce(x, out=out, persistent=True) as p:
        p.run()
        x.array[:] = 5
        p.run()
    assert (out.array == 5).all()


def an_array_lives_as_long_as_it_is_used(comm):
    x = Other(numpy.ones(4))
    gone = weakref.ref(x)
    request = comm.allreduce(x, wait=False)
    del x
    assert (request.wait().array == 1).all()
    del request
    gc.collect()
    assert gone() is None, 'it is kept for ever'


def a_part_keeps_the_memory(comm):
    array = numpy.ones(4)
    gone = weakref.ref(array)
    part = comm.reduce_scatter(Other(array))
    del array
    gc.collect()
    assert gone() is not None and (part == 1).all()
    del part
    gc.collect()
    assert gone() is None


def an_offset_counts(comm):
    x = Shifted(numpy.arange(6.0))
    assert comm.allreduce(x, op='premulsum', scale=10.0) is x and x.array.tolist() == [0, 1, 20, 30, 40, 50], x.array


def an_empty_array_is_one(comm):
    x = Other(numpy.zeros((0, 3)))
    assert comm.allreduce(x) is x


def memory_of_a_gpu_is_refused_with_the_remedy(comm):
    x = OnGpu(numpy.ones(4))
    refused(lambda: comm.allreduce(x), 'allreduce: x is in the memory of a GPU (CUDA), number 3', 'cupy.asnumpy()')
    refused(lambda: comm.allreduce(numpy.ones(4), out=x), 'allreduce: out is in the memory of a GPU')


def what_has_no_dlpack_is_named(comm):
    for x in [1.0], 'text', None:
        try:
            comm.allreduce(x)
        except TypeError as error:
            assert f'x is of type {type(x).__name__}; it must be a numpy.ndarray' in str(error), error
        else:
            raise AssertionError(x)


def tensors_of_pytorch_are_taken(comm):
    if torch is None:
        print('skipped: there is no PyTorch')
        return
    x = torch.arange(6.0)
    assert comm.allreduce(x, op='premulsum', scale=2.0) is x and x.tolist() == [0, 2, 4, 6, 8, 10]
    half = torch.ones(4, dtype=torch.bfloat16) * 1.5
    out = torch.zeros(4, dtype=torch.bfloat16)
    assert comm.allreduce(half, op='avg', out=out) is out and out.tolist() == [1.5] * 4
    refused(lambda: comm.allreduce(torch.ones(2, requires_grad=True)), 'x of type Tensor is not given', 'detach')
    refused(lambda: comm.allreduce(torch.ones(2, dtype=torch.complex64)), 'dtype complex64')


with plait.Comm.create(1, 0) as one:
    for test in [results_are_written_into_the_array_that_is_given, parts_and_shapes_are_those_of_the_array,
                 requests_and_persistent_calls_return_the_array, an_array_lives_as_long_as_it_is_used,
                 a_part_keeps_the_memory, an_offset_counts,
                 an_empty_array_is_one, memory_of_a_gpu_is_refused_with_the_remedy, what_has_no_dlpack_is_named,
                 tensors_of_pytorch_are_taken]:
        print(f'[ RUN      ] {test.__name__}')
        test(one)
        print(f'[       OK ] {test.__name__}')
