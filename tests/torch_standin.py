# SPDX-License-Identifier: BSD-3-Clause
"""torch.cuda over the stand-in for CUDA's driver (tests/cuda/standin.h), for a PyTorch without CUDA.

A "tensor of the GPU" is a tensor of the CPU whose memory the stand-in allocated. write() and read() are operations of the
current stream, of which the stand-in knows whether anything orders them. Copies by PyTorch itself are of the host: the
stream in whose context they are made is synchronized first.
"""
import contextlib
import ctypes
import os
import threading
from unittest import mock

import torch

from plait.torch import _fuse, _gpu, _tensors

_driver = None
_memory = []  # (begin, end, device) of what was allocated
_current = threading.local()
recorded = []  # (address, stream) of record_stream()


def _ask(name, *arguments, device=0):
    """The result of a function of the driver, in the primary context of that GPU."""
    context = ctypes.c_void_p()
    assert _driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
    assert _driver.cuCtxPushCurrent_v2(context) == 0
    result = getattr(_driver, name)(*arguments)
    assert _driver.cuCtxPopCurrent_v2(ctypes.byref(context)) == 0
    return result


def _do(name, *arguments, device=0):
    error = _ask(name, *arguments, device=device)
    assert error == 0, f'{name}: error {error}'


class Event:
    def __init__(self, stream):
        self._event = ctypes.c_void_p()
        _do('cuEventCreate', ctypes.byref(self._event), 0)
        _do('cuEventRecord', self._event, stream.pointer)

    def query(self):
        return _ask('cuEventQuery', self._event) == 0


class Stream:
    def __init__(self, device):
        self.device, self.pointer = torch.device(device), ctypes.c_void_p()
        _do('cuStreamCreate', ctypes.byref(self.pointer), 1, device=self.device.index)
        self.cuda_stream = self.pointer.value

    def record_event(self):
        return Event(self)

    def wait_event(self, event):
        _do('cuStreamWaitEvent', self.pointer, event._event, 0)

    def wait_stream(self, other):
        self.wait_event(other.record_event())

    def query(self):
        return _ask('cuStreamQuery', self.pointer) == 0

    def synchronize(self):
        _do('cuStreamSynchronize', self.pointer)


def current_stream(device=0):
    index = torch.device(device).index if not isinstance(device, int) else device
    streams = _current.__dict__.setdefault('streams', {})
    if index not in streams:
        streams[index] = Stream(torch.device('cuda', index))
    return streams[index]


@contextlib.contextmanager
def stream(new):
    before = current_stream(new.device)
    _current.streams[new.device.index] = new
    try:
        yield
    finally:
        _current.streams[new.device.index] = before


def _allocate(count, dtype, device):
    """A tensor of so many elements."""
    size, address = max(1, count * torch.empty(0, dtype=dtype).element_size()), ctypes.c_uint64()
    _do('cuMemAlloc_v2', ctypes.byref(address), ctypes.c_size_t(size), device=device)
    _memory.append((address.value, address.value + size, device))
    room = torch.frombuffer((ctypes.c_char * size).from_address(address.value), dtype=torch.uint8)
    return room[:count * torch.empty(0, dtype=dtype).element_size()].view(dtype)


def _device_of(tensor):
    found = [device for begin, end, device in _memory if begin <= tensor.data_ptr() < end]
    return torch.device('cuda', found[0]) if found else tensor.device


def _room(like, count):
    device = _device_of(like)
    return torch.empty(count, dtype=like.dtype) if device.type == 'cpu' else _allocate(count, like.dtype, device.index)


def write(values, device=0):
    """These values on the GPU, when its current stream has copied them."""
    values = torch.as_tensor(values).contiguous()
    tensor = _allocate(values.numel(), values.dtype, device).view(values.shape)
    refill(tensor, values)
    return tensor


def _copy(to, source, count, on):
    _do('cuMemcpyAsync', ctypes.c_uint64(to), ctypes.c_uint64(source), ctypes.c_size_t(count), on.pointer)


def refill(tensor, values):
    """The tensor gets these values in the order of the current stream, which copies them from pinned memory."""
    pinned, size = ctypes.c_void_p(), values.numel() * values.element_size()
    _do('cuMemHostAlloc', ctypes.byref(pinned), ctypes.c_size_t(size), 0)
    ctypes.memmove(pinned, values.data_ptr(), size)
    _copy(tensor.data_ptr(), pinned.value, size, current_stream(_device_of(tensor)))


def read(tensor):
    """The values that the current stream finds."""
    on, values = current_stream(_device_of(tensor)), torch.empty(tensor.shape, dtype=tensor.dtype)
    assert tensor.is_contiguous()
    _copy(values.data_ptr(), tensor.data_ptr(), values.numel() * values.element_size(), on)
    on.synchronize()
    return values


class Future(torch.futures.Future):
    """As one with devices: its result is there when the stream of set_result() has come to this place."""

    def __init__(self, devices):
        super().__init__()
        self._device, self._event = devices[0], None

    def set_result(self, result):
        self._event = current_stream(self._device).record_event()
        super().set_result(result)

    def wait(self):
        result = super().wait()
        current_stream(self._device).wait_event(self._event)
        return result

    def then(self, callback):
        self.wait()  # in these tests it has a result
        after = Future([self._device])
        after.set_result(callback(self))
        return after


def _after_current_stream(function, copies):
    def wrapped(buffer, *arguments):
        if buffer.device.type != 'cpu' and copies(buffer):
            current_stream(buffer.device).synchronize()
        function(buffer, *arguments)
    return wrapped


def begin():
    """In the process of a rank, before its first tensor of a GPU."""
    global _driver  # pylint: disable=global-statement
    _driver = ctypes.CDLL(os.environ['PLAIT_CUDA_DRIVER'], mode=ctypes.RTLD_GLOBAL)
    assert _driver.cuInit(0) == 0
    fake = mock.Mock(Stream=Stream, current_stream=current_stream, stream=stream)
    _gpu.cuda, _gpu.Future = fake, lambda devices=None: Future(devices) if devices else torch.futures.Future()
    for module in (_tensors, _fuse):
        module.device_of = _device_of
    _tensors.room = _room
    buffer = _tensors.Buffer
    buffer.store = _after_current_stream(buffer.store, lambda one: one._copied)
    buffer._copy = _after_current_stream(buffer._copy, lambda one: True)
    torch.Tensor.record_stream = lambda self, on: recorded.append((self.data_ptr(), on.cuda_stream))
