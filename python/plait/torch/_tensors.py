# SPDX-License-Identifier: BSD-3-Clause
"""Tensors as the library's buffers: their types, their operators, and copies of what is not in one piece."""
from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy
import torch

from .. import _operators
from .._library import lib
from ._errors import ArgError, UnsupportedError


class Type(NamedTuple):
    """How elements of a dtype travel: as `times` elements of the library's type; `kind` is a column of _OPERATORS."""

    number: int
    times: int
    kind: str


_TRAVEL = {  # dtype: library's type, elements of it, kind
    'float32': ('float32', 1, 'float'), 'float64': ('float64', 1, 'float'), 'float16': ('float16', 1, 'float'),
    'bfloat16': ('bfloat16', 1, 'float'), 'float8_e4m3fn': ('float8e4m3', 1, 'float'),
    'float8_e5m2': ('float8e5m2', 1, 'float'),
    'int8': ('int8', 1, 'integer'), 'uint8': ('uint8', 1, 'integer'), 'int32': ('int32', 1, 'integer'),
    'uint32': ('uint32', 1, 'integer'), 'int64': ('int64', 1, 'integer'), 'uint64': ('uint64', 1, 'integer'),
    'complex32': ('float16', 2, 'complex'), 'complex64': ('float32', 2, 'complex'),
    'complex128': ('float64', 2, 'complex'), 'bool': ('uint8', 1, 'bool'),
    'int16': ('uint8', 2, 'bytes'), 'uint16': ('uint8', 2, 'bytes'),
}
TYPES: Dict[torch.dtype, Type] = {
    getattr(torch, name): Type(lib.plait_dtype_find(type_.encode()), times, kind)
    for name, (type_, times, kind) in _TRAVEL.items() if hasattr(torch, name)}
Operator = Union[str, Callable[[Any, Any], Any]]
# The library's operator for each of PyTorch's, by kind. A bool travels as 0 or 1, a complex number as two floats.
_OPERATORS: Dict[str, Dict[str, Operator]] = {
    'SUM': {'float': 'sum', 'integer': 'sum', 'complex': 'sum', 'bool': 'max'},
    'AVG': {'float': 'avg', 'integer': 'avg', 'complex': 'avg'},
    'PREMUL_SUM': {'float': 'premulsum', 'complex': 'premulsum'},
    'PRODUCT': {'float': 'prod', 'integer': 'prod', 'bool': 'min'},
    'MIN': {'float': 'min', 'integer': 'min', 'bool': 'min'},
    'MAX': {'float': 'max', 'integer': 'max', 'bool': 'max'},
    'BAND': {'integer': numpy.bitwise_and, 'bool': 'min'},
    'BOR': {'integer': numpy.bitwise_or, 'bool': 'max'},
    'BXOR': {'integer': numpy.bitwise_xor, 'bool': numpy.bitwise_xor},
}


@functools.lru_cache(maxsize=None)
def _known(name: str, kind: str) -> Tuple[int, Optional[Operator]]:
    """The number and the operator of this name for this kind; None: there is none."""
    found = _OPERATORS.get(name, {}).get(kind)
    return (0, None) if found is None else (_operators.find('operator', found), found)


def operator(call: str, op: Any, dtype: torch.dtype) -> Tuple[int, Operator, Optional[torch.Tensor]]:
    """The library's operator for this ReduceOp: its number, its name or function, and its factor."""
    name = getattr(op, 'op', op).name
    number, found = _known(name, TYPES[dtype].kind)
    if found is None:
        able = [o for o, kinds in _OPERATORS.items() if TYPES[dtype].kind in kinds]
        raise ArgError(f'{call}: op is {name}, but {dtype} has {", ".join(able) or "no operators"}; '
                       'convert the tensor to a dtype that has it (docs/torch.md)')
    return number, found, _factor(call, op, dtype) if found == 'premulsum' else None


def _factor(call: str, op: Any, dtype: torch.dtype) -> torch.Tensor:
    """The factor of PREMUL_SUM, in the type that travels."""
    state = op.__getstate__() if hasattr(op, '__getstate__') else None
    if not isinstance(state, tuple) or len(state) < 2:
        raise UnsupportedError(f'{call}: op is PREMUL_SUM, whose factor PyTorch {torch.__version__} does not show; '
                               'multiply the tensor and use SUM')
    real = torch.empty(0, dtype=dtype).real.dtype if dtype.is_complex else dtype
    return torch.as_tensor(state[1]).detach().reshape(-1)[:1].to('cpu', real)


def device_of(tensor: torch.Tensor) -> torch.device:
    return tensor.device


def room(like: torch.Tensor, count: int) -> torch.Tensor:
    """Memory for so many elements, of the same dtype and device."""
    return torch.empty(count, dtype=like.dtype, device=like.device)


def fits(call: str, what: str, tensor: Any) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise ArgError(f'{call}: {what} is of type {type(tensor).__name__}; it must be a tensor')
    if device_of(tensor).type not in ('cpu', 'cuda'):
        raise ArgError(f'{call}: {what} is on {tensor.device}; the backend plait takes tensors of the CPU and of CUDA: '
                       'move it with .cpu(), or give such tensors a group of another backend: new_group(backend=...)')
    if tensor.layout != torch.strided:
        raise ArgError(f'{call}: {what} has layout {tensor.layout}; use .to_dense()')
    if tensor.dtype not in TYPES:
        raise ArgError(f'{call}: {what} has dtype {tensor.dtype}; it must be one of '
                       f'{", ".join(str(t)[6:] for t in TYPES)}')


def _plain(tensor: torch.Tensor) -> bool:
    """Are its elements one behind the other in memory, as they are meant?"""
    return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def put(tensor: torch.Tensor, value: torch.Tensor) -> None:
    """In any thread: the modes of autograd belong to the thread that made the tensor."""
    with torch.inference_mode(tensor.is_inference()), torch.no_grad():
        tensor.copy_(value)


class Buffer:
    """Tensors of one dtype as one piece of memory: their own if they lie one behind the other, else a copy."""

    __slots__ = 'address', 'counts', 'total', 'dtype', 'device', 'kept', '_copied'

    def __init__(self, call: str, what: str, tensors: Sequence[torch.Tensor], load: bool = True, store: bool = False):
        for k, tensor in enumerate(tensors):
            fits(call, what if len(tensors) == 1 else f'{what}[{k}]', tensor)
        self.dtype, self.device = tensors[0].dtype, device_of(tensors[0])
        for k, tensor in enumerate(tensors):
            if tensor.dtype != self.dtype:
                raise ArgError(f'{call}: {what}[0] has dtype {self.dtype}, but {what}[{k}] has {tensor.dtype}; they '
                               'must be equal')
            if device_of(tensor) != self.device:
                raise ArgError(f'{call}: {what}[0] is on {self.device}, but {what}[{k}] is on {device_of(tensor)}; '
                               'they must be on one device')
        times = TYPES[self.dtype].times
        self.counts = [tensor.numel() * times for tensor in tensors]
        self.total, self._copied = sum(self.counts), ()
        self.kept: Any = tensors
        self.address = tensors[0].data_ptr() if len(tensors) == 1 and _plain(tensors[0]) else self._joined(tensors)
        if self.address is None:
            for k, tensor in enumerate(tensors):
                if store and tensor.numel() > 0 and any(n > 1 and not step for n, step in
                                                        zip(tensor.shape, tensor.stride())):
                    raise ArgError(f'{call}: {what}[{k}] has elements that share memory, as of expand(); results need '
                                   'a tensor without: use .contiguous()')
            self._copy(tensors, load, store)

    @staticmethod
    def _joined(tensors: Sequence[torch.Tensor]) -> Optional[int]:
        """Where they begin if each ends where the next one begins; else None."""
        first = end = None
        for tensor in tensors:
            if tensor.numel() == 0:
                continue
            if not _plain(tensor) or (end is not None and tensor.data_ptr() != end):
                return None
            first = tensor.data_ptr() if first is None else first
            end = tensor.data_ptr() + tensor.numel() * tensor.element_size()
        return first or 0

    def _copy(self, tensors: Sequence[torch.Tensor], load: bool, store: bool) -> None:
        flat = room(tensors[0], sum(tensor.numel() for tensor in tensors))
        parts = [part.view(tensor.shape) for part, tensor in zip(flat.split([t.numel() for t in tensors]), tensors)]
        if load:
            with torch.no_grad():
                for part, tensor in zip(parts, tensors):
                    part.copy_(tensor)
        self.kept, self.address = [flat, *tensors], flat.data_ptr()
        self._copied = list(zip(tensors, parts)) if store else ()

    def even(self) -> bool:
        """Are all tensors of one size?"""
        return all(count == self.counts[0] for count in self.counts)

    def store(self) -> None:
        """The operation has ended: copy results to where they belong."""
        for tensor, part in self._copied:
            put(tensor, part)


def splits(call: str, what: str, tensor: torch.Tensor, sizes: List[int], nrank: int) -> List[int]:
    """Elements of each rank's part of a tensor that is split along its first dimension, evenly without sizes."""
    rows = tensor.shape[0] if tensor.dim() > 0 else 0
    if not sizes and rows % nrank != 0:
        raise ArgError(f'{call}: {what} has shape {tuple(tensor.shape)}; its first dimension must be a multiple of '
                       f'{nrank}, or give {what}_split_sizes')
    if sizes and (len(sizes) != nrank or sum(sizes) != rows or min(sizes) < 0):
        raise ArgError(f'{call}: {what}_split_sizes is {list(sizes)}; it must be {nrank} numbers of 0 or more whose '
                       f'sum is {rows}, the first dimension of {what}')
    row = tensor[0].numel() * TYPES[tensor.dtype].times if rows else 0
    return [size * row for size in sizes or [rows // nrank] * nrank]
