# SPDX-License-Identifier: BSD-3-Clause
"""The process group: each operation of PyTorch's as calls of the library."""
from __future__ import annotations

import ctypes
import sys
import threading
import weakref
from datetime import timedelta
from multiprocessing import util
from typing import Any, Dict, Hashable, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy
import torch
from torch import distributed as dist

from .. import _operators
from .._comm import Comm
from .._errors import Error
from .._library import Call, lib
from .._request import Operation, Request
from ._errors import ArgError, UnsupportedError, meant
from ._gpu import Gpu
from ._leave import abort, leave
from ._tensors import TYPES, Buffer, operator, put, splits
from ._work import Lane, Work

_TAG = lib.plait_dtype_find(b'float8e5m2')  # a type of which no tensor is mistaken for a tag
_COLLECTIVES, _MESSAGES = 'collectives', 'messages'  # lanes; futures of messages have one for each direction and peer


class _Part(NamedTuple):
    """One call of the library: plait_NAME(comm, arguments...), without operator and root."""

    name: str
    arguments: List[Any]
    buffers: List[Buffer]


def _list(tensors: Any) -> List[Any]:
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def _one(call: str, what: str, tensors: Any) -> List[Any]:
    """The forms for several devices of a process have a list of lists; there is one device."""
    tensors = _list(tensors)
    if len(tensors) != 1:
        raise ArgError(f'{call}: {what} has {len(tensors)} entries; it must have 1, as a rank has one device. For '
                       'several tensors at once there are the calls named ..._coalesced')
    return tensors


def _type(buffer: Buffer) -> int:
    return TYPES[buffer.dtype].number


def _same(call: str, what: str, buffer: Buffer, count: int, other: str, base: Buffer) -> None:
    """buffer has `count` elements of base's type."""
    if _type(buffer) != _type(base):
        raise ArgError(f'{call}: {what} has dtype {buffer.dtype}, but {other} has {base.dtype}; they must be equal')
    if buffer.total != count:
        times = TYPES[buffer.dtype].times
        raise ArgError(f'{call}: {what} has {buffer.total // times} elements, but with this {other} it must have '
                       f'{count // times}')


def _sizes(counts: Sequence[int]) -> Any:
    return (ctypes.c_size_t * len(counts))(*counts)


def _root(opts: Any, root: Optional[int] = None) -> int:
    return (root or 0) if opts is None else getattr(opts, 'rootRank', opts)


def _op(opts: Any) -> Any:
    return dist.ReduceOp.SUM if opts is None else getattr(opts, 'reduceOp', opts)


def _deadline(opts: Any) -> float:
    timeout = getattr(opts, 'timeout', None)  # negative: the group's
    return max(0.0, timeout.total_seconds()) if isinstance(timeout, timedelta) else 0.0


def _goes_on(opts: Any) -> bool:
    """Does the program go on before the operation has ended? Where PyTorch does not pass that on, its caller knows."""
    told = getattr(opts, 'asyncOp', None)
    if told is not None:
        return told
    caller: Any = sys._getframe(1)
    while caller is not None and caller.f_globals is globals():
        caller = caller.f_back
    return caller is None or caller.f_locals.get('async_op', True)


class OnGpu:
    """A group as batch_isend_irecv() sees it for tensors of GPUs: messages begin together, at the end of the batch."""

    supports_coalescing = True

    def __init__(self, group: ProcessGroup):
        self._group = group

    def __getattr__(self, name: str) -> Any:
        return getattr(self._group, name)


class ProcessGroup(dist.ProcessGroup):
    """Ranks that call collectives together, as torch.distributed makes it for the backend "plait".

    Tensors that lie in one piece are not copied; others are packed, and results are copied back. All operations begin
    at once, in the order of the calls; Work.wait() waits for their end.
    """

    supports_splitting = supports_coalescing = False  # of newer PyTorch: new_group() makes comms, calls begin at once

    def __init__(self, comm: Comm, rank: int, size: int):
        super().__init__(rank, size)
        self._comm, self._rank, self._size = comm, rank, size
        self._calls = threading.RLock()  # any thread may call
        self._sequence = 0
        self._timeout = 0.0  # seconds; 0: the comm's
        self._pending: Set[Work] = set()  # a work leaves it when it has ended
        self._lanes: Dict[Hashable, Lane] = {}
        self._gpus: List[Gpu] = []  # none until the first call with a tensor of one; one GPU for each rank
        self._coalesced: Optional[List[Work]] = None
        self._name = self._description = ''
        self.hooks: Any = weakref.WeakSet()  # of fuse()
        # At the end of the group or of the process, of multiprocessing's children too.
        self._left = util.Finalize(self, leave, (comm, self._pending, self._lanes, self._gpus, self.hooks),
                                   exitpriority=0)

    def __repr__(self) -> str:
        return f"<plait.torch.ProcessGroup '{self._comm.name}' rank {self._rank} of {self._size}>"

    # ---- Beginning an operation ----------------------------------------------------------------------

    def _bound(self, part: _Part, deadline: float, op: Any, rank: Optional[int]) -> Tuple[Any, ...]:
        """Arguments of Comm._begin() but for the kind. Nothing has begun when one of several calls is refused."""
        name, arguments, buffers = part
        call, function, factor = Call(ctypes.sizeof(Call), deadline=deadline), None, None
        if op is not None:
            number, found, factor = operator(name, op, buffers[0].dtype)
            arguments.append(number)
            if callable(found):
                if buffers[0].device.type != 'cpu':
                    raise ArgError(f'{name}: op is a function of the host, {getattr(op, "op", op).name}, but the '
                                   f'tensor is on {buffers[0].device}; move it with .cpu()')
                dtype = numpy.dtype(lib.plait_dtype_name(_type(buffers[0])).decode())
                function = _operators.Function(found, dtype, commutative=True)
                call.user = ctypes.pointer(function.struct)
            if factor is not None:
                call.scale = factor.data_ptr()
        if rank is not None:
            arguments.append(self._comm._rank(name, {'send': 'dst', 'recv': 'src'}.get(name, 'root'), rank))
        kept = [buffer.kept for buffer in buffers]
        return name, arguments, call, Operation(self._comm, [kept, factor], function, None)

    def gpu_of(self, name: str, devices: Iterable[torch.device]) -> Optional[Gpu]:
        """The GPU of tensors on these devices, or None if they are the host's."""
        devices = list(set(devices))
        if len(devices) > 1:
            raise ArgError(f'{name}: its tensors are on {" and ".join(map(str, devices))}; they must be on one device')
        if not devices or devices[0].type == 'cpu':
            return None
        if not self._gpus:
            self._gpus.append(Gpu(self._comm, devices[0], self._calls))
        gpu = self._gpus[0]
        if gpu.device != devices[0]:
            raise ArgError(f'{name}: its tensors are on {devices[0]}, but earlier ones of the group were on '
                           f'{gpu.device}; a rank of a group has one GPU: use new_group() for another one')
        return gpu

    def _run(self, parts: List[_Part], result: Any, opts: Any = None, op: Any = None, rank: Optional[int] = None,
             lane: Hashable = _COLLECTIVES, check: Any = None) -> Work:
        """Begin these calls; the work that ends with them."""
        deadline, goes_on = _deadline(opts) or self._timeout, _goes_on(opts)
        name, buffers = parts[0].name if parts else 'nothing', [buffer for part in parts for buffer in part.buffers]
        with self._calls:
            try:
                calls = [self._bound(part, deadline, op, rank) for part in parts]
                gpu = self.gpu_of(name, (buffer.device for buffer in buffers))
                if gpu is not None:
                    on_gpu = gpu.run(name, calls, buffers, result, goes_on=goes_on, message=lane is not _COLLECTIVES)
                    self._sequence += lane is _COLLECTIVES
                    return on_gpu
                requests = [self._comm._begin(*call, Request) for call in calls]
            except Error as error:
                raise meant(error) from None
            work = Work(name, self._lane(lane), requests, buffers, result, check, self._pending)
            self._pending.add(work)
            self._sequence += lane is _COLLECTIVES
            if self._coalesced is not None:
                self._coalesced.append(work)
        if goes_on and not work.is_completed():
            self._lane(lane if lane is _COLLECTIVES else _MESSAGES).put(work)  # a thread that waits drives all
        return work

    def _lane(self, key: Hashable) -> Lane:
        return self._lanes.setdefault(key, Lane()) if key not in self._lanes else self._lanes[key]

    # ---- Parts of one size, or given as a list ---------------------------------------------------------

    def _gathers(self, call: str, outputs: Sequence[Any], tensor: Any) -> _Part:
        """Every rank's tensor to `outputs`, which are one whole or one for each rank."""
        part = Buffer(call, 'input', [tensor])
        whole = Buffer(call, 'output', outputs, load=False, store=True)
        if whole.even():
            _same(call, 'output', whole, part.total * self._size, 'input', part)
            return _Part('allgather', [part.address, whole.address, part.total, _type(part)], [part, whole])
        _same(call, 'input', part, whole.counts[self._rank], f'output[{self._rank}]', whole)
        return _Part('allgatherv', [part.address, whole.address, _sizes(whole.counts), None, _type(part)],
                     [part, whole])

    def _scatters(self, call: str, output: Any, inputs: Sequence[Any]) -> _Part:
        """The combined inputs, one whole or one for each rank; each rank gets its part."""
        whole = Buffer(call, 'input', inputs)
        part = Buffer(call, 'output', [output], load=False, store=True)
        if whole.even():
            _same(call, 'input', whole, part.total * self._size, 'output', part)
            return _Part('reduce_scatter', [whole.address, part.address, part.total, _type(part)], [part, whole])
        _same(call, 'output', part, whole.counts[self._rank], f'input[{self._rank}]', whole)
        return _Part('reduce_scatterv', [whole.address, part.address, _sizes(whole.counts), None, _type(part)],
                     [part, whole])

    def _for_each(self, call: str, what: str, tensors: Sequence[Any]) -> Sequence[Any]:
        if len(tensors) != self._size:
            raise ArgError(f'{call}: {what} has {len(tensors)} tensors; it must have {self._size}, one for each rank')
        return tensors

    def _rooted(self, call: str, what: str, whole: Sequence[Any], part: Buffer, gather: bool) -> Buffer:
        """The root's tensors of a gather or scatter."""
        tensors = self._for_each(call, what, _list(_one(call, what, whole)[0]))
        buffer = Buffer(call, what, tensors, load=not gather, store=gather)
        for k, count in enumerate(buffer.counts):
            if count != part.total:
                raise ArgError(f'{call}: {what}[{k}] has {count} elements, but this rank\'s tensor has {part.total}; '
                               'all must have as many')
        _same(call, what, buffer, part.total * self._size, 'tensor', part)
        return buffer

    # ---- Collectives -------------------------------------------------------------------------------

    def allreduce(self, tensors: Any, opts: Any = None) -> Work:
        tensors = _one('allreduce', 'tensors', tensors)
        if getattr(tensors[0], 'layout', None) is torch.sparse_coo:
            return self._allreduce_sparse(tensors[0], opts)
        return self.allreduce_coalesced(tensors, opts)

    def _allreduce_sparse(self, tensor: Any, opts: Any) -> Work:
        """All ranks' entries are gathered, once their numbers are known, and added in the order of the ranks."""
        name = getattr(_op(opts), 'op', _op(opts)).name
        if name != 'SUM':
            raise ArgError(f'allreduce: op is {name}, but a sparse tensor has SUM; use .to_dense()')
        if tensor.device.type != 'cpu':
            raise ArgError(f'allreduce: a sparse tensor is on {tensor.device}; it must be on the CPU: use .to_dense()')
        with torch.no_grad():
            mine = tensor.coalesce()
            entries = [mine.indices().t().contiguous(), mine.values().contiguous()]
        numbers = torch.empty(self._size, dtype=torch.int64)
        self.all_gather_single(numbers, torch.tensor([len(entries[0])])).wait()
        every = [x.new_empty(int(numbers.sum()), *x.shape[1:]) for x in entries]

        def add() -> None:
            put(tensor, torch.sparse_coo_tensor(every[0].t(), every[1], tensor.shape).coalesce())
        parts = [self._gathers('allreduce', y.split(numbers.tolist()), x) for y, x in zip(every, entries)]
        return self._run(parts, [tensor], opts, check=add)

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Work:
        buffers, places = [], set()
        for tensor in _list(tensors):
            x = Buffer('allreduce', 'tensors', [tensor], store=True)
            if x.total and x.address in places:
                x = Buffer('allreduce', 'tensors', [tensor.clone()])  # it comes twice, and must not be reduced twice
            places.add(x.address)
            buffers.append(x)
        return self._run([_Part('allreduce', [x.address, x.address, x.total, _type(x)], [x]) for x in buffers],
                         tensors, opts, op=_op(opts))

    def reduce(self, tensors: Any, opts: Any = None, root: Any = None) -> Work:
        tensors, root = _one('reduce', 'tensors', tensors), _root(opts, root)
        x = Buffer('reduce', 'tensors', tensors, store=self._rank == root)
        out = x.address if self._rank == root else None
        op = getattr(opts, 'reduceOp', None)
        return self._run([_Part('reduce', [x.address, out, x.total, _type(x)], [x])], tensors, opts, _op(op), root)

    def broadcast(self, tensors: Any, opts: Any = None, root: Any = None) -> Work:
        tensors, root = _one('broadcast', 'tensors', tensors), _root(opts, root)
        mine = self._rank == root
        x = Buffer('broadcast', 'tensors', tensors, load=mine, store=not mine)
        return self._run([_Part('broadcast', [x.address if mine else None, x.address, x.total, _type(x)], [x])],
                         tensors, opts, rank=root)

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        outputs = _list(outputs)
        if not (outputs and isinstance(outputs[0], torch.Tensor)):
            outputs = _one('allgather', 'outputs', outputs)[0]
        inputs = _one('allgather', 'inputs', inputs)
        outputs = self._for_each('allgather', 'outputs', list(outputs))
        return self._run([self._gathers('allgather', outputs, inputs[0])], outputs, opts)

    def allgather_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """outputs[r][k] gets rank r's inputs[k]."""
        outputs = self._for_each('allgather_coalesced', 'outputs', list(outputs))
        for r, row in enumerate(outputs):
            if len(row) != len(inputs):
                raise ArgError(f'allgather_coalesced: outputs[{r}] has {len(row)} tensors, but inputs has '
                               f'{len(inputs)}; they must have as many')
        parts = [self._gathers('allgather_coalesced', row, x) for row, x in zip(zip(*outputs), inputs)]
        return self._run(parts, outputs, opts)

    def all_gather_single(self, output: Any, tensor: Any, opts: Any = None) -> Work:
        return self.all_gather_single_coalesced([output], [tensor], opts, output)

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None, result: Any = None) -> Work:
        parts = [self._gathers('all_gather_single', (y,), x) for y, x in zip(outputs, inputs)]
        return self._run(parts, outputs if result is None else result, opts)

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        outputs, inputs = _one('reduce_scatter', 'outputs', outputs), list(inputs)
        if not inputs or not isinstance(inputs[0], torch.Tensor):
            inputs = _one('reduce_scatter', 'inputs', inputs)[0]
        inputs = self._for_each('reduce_scatter', 'inputs', list(inputs))
        return self._run([self._scatters('reduce_scatter', outputs[0], inputs)], outputs, opts, op=_op(opts))

    def reduce_scatter_single(self, output: Any, tensor: Any, opts: Any = None) -> Work:
        return self.reduce_scatter_single_coalesced([output], [tensor], opts, output)

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None, result: Any = None) -> Work:
        parts = [self._scatters('reduce_scatter_single', y, (x,)) for y, x in zip(outputs, inputs)]
        return self._run(parts, outputs if result is None else result, opts, op=_op(opts))

    def gather(self, outputs: Any, inputs: Any, opts: Any = None, root: Any = None) -> Work:
        x, root = Buffer('gather', 'tensor', _one('gather', 'inputs', inputs)), _root(opts, root)
        out = [self._rooted('gather', 'outputs', outputs, x, gather=True)] if self._rank == root else []
        part = _Part('gather', [x.address, out[0].address if out else None, x.total, _type(x)], [x, *out])
        return self._run([part], outputs[0] if out else [], opts, rank=root)

    def gather_single(self, output: Any, tensor: Any, opts: Any = None) -> Work:
        outputs = [list(output.chunk(self._size))] if self._rank == _root(opts) else []
        return self.gather(outputs, [tensor], opts)

    def scatter(self, outputs: Any, inputs: Any, opts: Any = None, root: Any = None) -> Work:
        outputs, root = _one('scatter', 'outputs', outputs), _root(opts, root)
        y = Buffer('scatter', 'tensor', outputs, load=False, store=True)
        given = [self._rooted('scatter', 'inputs', inputs, y, gather=False)] if self._rank == root else []
        part = _Part('scatter', [given[0].address if given else None, y.address, y.total, _type(y)], [y, *given])
        return self._run([part], outputs, opts, rank=root)

    def all_to_all_single(self, output: Any, tensor: Any, output_splits: Any = (), splits_: Any = (),
                          opts: Any = None) -> Work:
        x = Buffer('all_to_all_single', 'input', [tensor])
        y = Buffer('all_to_all_single', 'output', [output], load=False, store=True)
        sent = splits('all_to_all_single', 'input', tensor, list(splits_ or ()), self._size)
        got = splits('all_to_all_single', 'output', output, list(output_splits or ()), self._size)
        return self._exchange('all_to_all_single', x, sent, y, got, output, opts)

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        x = Buffer('alltoall', 'inputs', self._for_each('alltoall', 'inputs', list(inputs)))
        y = Buffer('alltoall', 'outputs', self._for_each('alltoall', 'outputs', list(outputs)), load=False, store=True)
        return self._exchange('alltoall', x, x.counts, y, y.counts, outputs, opts)

    def _exchange(self, call: str, x: Buffer, sent: List[int], y: Buffer, got: List[int], result: Any,
                  opts: Any) -> Work:
        """In the form of different sizes, as a rank does not know whether all others' sizes are equal."""
        _same(call, 'output', y, y.total, 'input', x)
        return self._run([_Part('alltoallv', [x.address, _sizes(sent), None, y.address, _sizes(got), None, _type(x)],
                                [x, y])], result, opts)

    def barrier(self, opts: Any = None) -> Work:
        for gpu in self._gpus:
            gpu.synchronize()
        return self._run([_Part('barrier', [], [])], [], opts)

    def monitored_barrier(self, timeout: Optional[timedelta] = None, wait_all_ranks: bool = False) -> None:
        """A barrier whose error names the ranks that have not come after the timeout; then the group has failed."""
        opts = dist.distributed_c10d.BarrierOptions()
        if timeout is not None:
            opts.timeout = timeout
        self.barrier(opts).wait()

    # ---- Messages -------------------------------------------------------------------------------------

    def send(self, tensors: Any, dst: int, tag: int = 0) -> Work:
        tensors = _one('send', 'tensors', tensors)
        x, head = Buffer('send', 'tensors', tensors), Buffer('send', 'tag', [torch.tensor([tag])])
        tag = self._tag(x, tag)
        return self._run([_Part('send', [head.address, 8, _TAG], [head])] * (tag != 0) +
                         [_Part('send', [x.address, x.total, _type(x)], [x])], tensors, rank=dst, lane=('send', dst))

    def recv(self, tensors: Any, src: int, tag: int = 0) -> Work:
        tensors, came = _one('recv', 'tensors', tensors), torch.tensor([0])
        y, head = Buffer('recv', 'tensors', tensors, load=False, store=True), Buffer('recv', 'tag', [came])

        tag = self._tag(y, tag)

        def check() -> None:
            if tag not in (0, came.item()):
                raise ArgError(f'recv: tag is {tag}, but the next message from rank {src} has tag {came.item()}; '
                               'receive the messages of a rank in the order in which it sends them')
        return self._run([_Part('recv', [head.address, 8, _TAG], [head])] * (tag != 0) +
                         [_Part('recv', [y.address, y.total, _type(y)], [y])], tensors, rank=src, lane=('recv', src),
                         check=check)

    @staticmethod
    def _tag(buffer: Buffer, tag: int) -> int:
        """Messages between GPUs have none, as with NCCL."""
        return tag if buffer.device.type == 'cpu' else 0

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Work:
        raise UnsupportedError('recv: src is None, but messages are received from a given rank; give src')

    # ---- The group ------------------------------------------------------------------------------------

    def start_coalescing(self, *_device: Any) -> None:
        with self._calls:
            self._coalesced = []

    def end_coalescing(self, *_device: Any) -> Work:
        """One work for all that began since start_coalescing()."""
        with self._calls:
            works, self._coalesced = self._coalesced or [], None
            if self._gpus:
                on_gpu = self._gpus[0].run('coalesced', [], [], None, goes_on=True)
                if not works:
                    return on_gpu
                works.append(on_gpu)
            return Work('coalesced', self._lane('coalesced'), works, [], [], None)

    def fusion(self, kind: Any, tensors: Any, options: Any) -> Any:
        with self._calls:
            return kind(self._comm._open('fuse'), tensors, options)

    def set_timeout(self, timeout: timedelta) -> None:
        """Of later operations."""
        self._timeout = timeout.total_seconds()

    def abort(self) -> None:
        abort(self._comm, self.hooks, f'abort() on rank {self._rank}')

    def shutdown(self) -> None:
        self._left()

    # What C++ asks of the group, by these names. pylint: disable=invalid-name

    def getBackendName(self) -> str:
        return 'plait'

    def getRank(self) -> int:
        return self._rank

    def getSize(self) -> int:
        return self._size

    def getGroupName(self) -> str:
        return self._name

    def setGroupName(self, name: str) -> None:
        self._name = name

    def getGroupDesc(self) -> str:
        return self._description

    def setGroupDesc(self, description: str) -> None:
        self._description = description

    # pylint: enable=invalid-name

    @property
    def _device_types(self) -> List[torch.device]:
        """None as long as PyTorch makes the group, for else its flight recorder looks for a backend in C++."""
        made = self in dist.distributed_c10d._world.pg_group_ranks
        return [torch.device(name) for name in ('cpu', 'cuda') if made]

    def _set_sequence_number_for_group(self) -> None:
        """It counts from 0 on every rank."""

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def _get_backend(self, device: Any) -> Any:
        return OnGpu(self) if torch.device(device).type == 'cuda' else self


# Names by which older and newer versions of PyTorch call the same operation.
for _name, _names in {
        'all_gather_single': ['_allgather_base'], 'reduce_scatter_single': ['_reduce_scatter_base'],
        'all_gather_single_coalesced': ['allgather_into_tensor_coalesced'],
        'reduce_scatter_single_coalesced': ['reduce_scatter_tensor_coalesced'],
        'all_to_all_single': ['alltoall_base'], 'gather_single': ['gather_into_tensor'],
        'recv_anysource': ['recvAnysource'],
        '_get_backend': ['get_backend'], 'start_coalescing': ['_start_coalescing'],
        'end_coalescing': ['_end_coalescing']}.items():
    for _other in _names:
        setattr(ProcessGroup, _other, getattr(ProcessGroup, _name))
