# SPDX-License-Identifier: BSD-3-Clause
"""DistributedDataParallel whose gradients travel in the buckets of a fusion (plait.Fusion)."""
from __future__ import annotations

import contextlib
import os
from typing import Any, Dict, List, Optional, Tuple

import numpy
import torch
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

from .._errors import Error
from .._fusion import NO_TYPE, Fusion, options_of
from ._errors import ArgError, meant
from ._gpu import Gpu, future_of, library_stream
from ._group import ProcessGroup
from ._tensors import TYPES, device_of, fits


class _Gradients(Fusion):
    """A fusion of {name: flat tensor of any dtype}; self[name] is a tensor in its bucket, or on a GPU the tensor."""

    def __init__(self, comm: Any, tensors: Dict[str, torch.Tensor], options: Any):
        self._dtypes, self._on_gpu = [tensor.dtype for tensor in tensors.values()], bool(options.stream)
        super().__init__(comm, tensors, options)

    def _describe(self, row: Any, name: str, what: torch.Tensor) -> None:
        travels = TYPES[what.dtype]
        row.name, row.count, row.type = name.encode(), what.numel() * travels.times, travels.number
        if self._on_gpu:
            row.data, self._arrays[name] = what.data_ptr(), what
        self._shapes.append(((what.numel() * what.element_size(),), numpy.dtype('uint8')))

    def _find(self) -> None:
        if self._on_gpu:
            return
        super()._find()
        for name, dtype in zip(self._names, self._dtypes):
            self._arrays[name] = torch.from_numpy(self._arrays[name]).view(dtype)


class Hook:
    """DDP's communication hook. A bucket of DDP's is a tensor of the fusion, with a model that fuse() has wrapped one
    gradient. The fusion is made at the end of the first backward pass, and made again when DDP changes its buckets,
    which it does on all ranks in the same pass."""

    def __init__(self, group: ProcessGroup, names: Dict[int, str], options: Any, cuts: Any):
        self._group, self._names, self._options, self._cuts = group, names, options, cuts or ()
        self._pid = os.getpid()
        group.hooks.add(self)
        self.fusion: Optional[_Gradients] = None
        self._gpu: Optional[Gpu] = None  # of the model
        self._kept = contextlib.ExitStack()  # the library's handle of its stream, as long as the fusion
        self._places: List[Tuple[str, torch.Tensor]] = []  # of DDP's buckets in the fusion
        self._came: List[Tuple[str, torch.Tensor, torch.futures.Future]] = []  # in this pass

    # DDP compares annotations with its own.
    def reduce(self, _state, bucket):  # type: ignore[no-untyped-def]
        """The future has the averages, at the end of the pass."""
        k, flat = bucket.index(), bucket.buffer()
        if flat.layout != torch.strided:
            raise ArgError(f'fuse: the gradient of {self._name(k, bucket)} is sparse; make it dense (sparse=False of '
                           'Embedding), or use DistributedDataParallel alone')
        try:
            self._gpu = self._group.gpu_of('fuse', [device_of(flat)])
            future = future_of(self._gpu)
            self._came = self._came[:k] + [(self._name(k, bucket), flat, future)]
            if self.fusion is not None and not self._has_place(k, flat):
                self.leave()
            if self.fusion is not None:
                self._hand_over(k, flat)
            if bucket.is_last():
                self._end()
        except Error as error:
            raise meant(error) from None
        return future

    def _name(self, k: int, bucket: Any) -> str:
        parameters = bucket.parameters()
        more = f' and {len(parameters) - 1} more' if len(parameters) > 1 else ''
        return f'{k}, {self._names.get(id(parameters[0]), "?")}{more}' if parameters else str(k)

    def _has_place(self, k: int, flat: torch.Tensor) -> bool:
        if k >= len(self._places):
            return False
        place = self._places[k][1]
        return (place.shape, place.dtype) == (flat.shape, flat.dtype) and (
            self._gpu is None or place.data_ptr() == flat.data_ptr())

    def _hand_over(self, k: int, flat: torch.Tensor) -> None:
        name, place = self._places[k]
        if self._gpu is None:
            place.copy_(flat)
        else:
            self._gpu.behind()
        self.fusion.ready(name)

    def _end(self) -> None:
        if self.fusion is None:
            # DDP may begin with a single bucket, which no cut fits.
            self._options.layout.ncut = sum(cut < len(self._came) for cut in self._cuts)
            if self._gpu is not None:
                self._options.stream = self._kept.enter_context(library_stream(self._gpu.behind()))
            self.fusion = self._group.fusion(_Gradients, {name: flat for name, flat, _ in self._came}, self._options)
            self._places = [(name, self.fusion[name]) for name, _, _ in self._came]
            for k, (_, flat, _) in enumerate(self._came):
                self._hand_over(k, flat)
        self.fusion.wait_all()
        with contextlib.nullcontext() if self._gpu is None else self._gpu.on_own():
            for (_, _, future), (_, place) in zip(self._came, self._places):
                future.set_result(place)
        self._came = []

    def leave(self) -> None:
        """Drop what is incomplete, and free the buckets."""
        fusion, self.fusion, self._places = self.fusion, None, []
        if fusion is not None:
            fusion.destroy()
        self._kept.close()

    def __del__(self) -> None:
        with contextlib.suppress(Error):  # a failure has been told by the pass that met it
            if os.getpid() == self._pid:  # not the copy of a forked child, such as a DataLoader's
                self.leave()


def _group_of(model: DistributedDataParallel) -> ProcessGroup:
    group = model.process_group
    if not isinstance(group, ProcessGroup):
        raise ArgError(f'fuse: the model\'s process group has backend {group.name()}; it must be plait')
    return group


def _wrapped(model: torch.nn.Module, options: Dict[str, Any]) -> DistributedDataParallel:
    """With each gradient in a bucket of its own: the first bucket has a size of its own, which is tuned so."""
    first, dist._DEFAULT_FIRST_BUCKET_BYTES = dist._DEFAULT_FIRST_BUCKET_BYTES, 0
    try:
        return DistributedDataParallel(model, **options)
    finally:
        dist._DEFAULT_FIRST_BUCKET_BYTES = first


def _check_layout(layout: Any, ntensor: Optional[int]) -> None:
    """What the library would refuse only in the first backward pass. ntensor: None if not known."""
    if isinstance(layout, (list, tuple)):
        most = max([0, *layout]) if ntensor is None else ntensor - 1
        if any(a >= b for a, b in zip([0, *layout], layout)) or max([0, *layout]) > most:
            last = 'the number of tensors - 1' if ntensor is None else f'{most}; there are {ntensor} tensors'
            raise ArgError(f'fuse: layout is {layout}; its numbers must increase, from 1 to {last}')


def fuse(model: torch.nn.Module, *, layout: Any = 4 << 20, payload: Any = None,
         round: str = 'default',  # pylint: disable=redefined-builtin
         reproducible: bool = False, **options: Any) -> DistributedDataParallel:
    """`model` under DistributedDataParallel, whose buckets are replaced by a fusion of Plait's. Averages are DDP's.

    model         a module, or a DistributedDataParallel without a hook, whose buckets are then the fusion's tensors
    layout        bytes of a bucket (4 MiB), a list of the numbers of tensors at which further buckets begin ([]: one
                  bucket), as plait.Forecast.cuts() finds them, or "cubic"
    payload       torch.bfloat16 or torch.float16: what float32 gradients travel as; None: as they are
    round         "once", "hop" or "default", as in Comm.create()
    reproducible  True: bits that do not depend on buckets or algorithm
    options       of DistributedDataParallel, if `model` is none
    """
    wrapped = isinstance(model, DistributedDataParallel)
    named = (model.module if wrapped else model).named_parameters()
    parameters = {name: parameter for name, parameter in named if parameter.requires_grad}
    for name, parameter in parameters.items():
        fits('fuse', name, parameter)
    name = str(payload).replace('torch.', '') if isinstance(payload, torch.dtype) else payload
    try:
        found, cuts = options_of('avg', layout, name, round, reproducible, False, True, False, 'fuse')
    except Error as error:
        raise meant(error) from None
    _check_layout(layout, None if wrapped else len(parameters))
    if found.payload not in (NO_TYPE, TYPES[torch.bfloat16].number, TYPES[torch.float16].number):
        raise ArgError(f'fuse: payload is {payload}; it must be torch.bfloat16, torch.float16 or None')
    if wrapped:
        if options:
            raise ArgError(f'fuse: {", ".join(options)} is an option of DistributedDataParallel, which model is '
                           'already; give it there')
    else:
        model = _wrapped(model, {'bucket_cap_mb': 0, **options})
    group = _group_of(model)
    hook = Hook(group, {id(parameter): name for name, parameter in parameters.items()}, found, cuts)
    model.register_comm_hook(None, hook.reduce)
    return model
