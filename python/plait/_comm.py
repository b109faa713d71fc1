# SPDX-License-Identifier: BSD-3-Clause
"""Communicators and their collectives."""
import contextlib
import ctypes
import operator
import warnings

from . import _arrays, _operators
from ._errors import ArgError, Error, HARMLESS
from ._library import ROUNDS, Call, CommOptions, CommStats, UniqueId, lib

_OPTIONS = ('algorithm', 'slice', 'round', 'reproducible', 'deadline', 'scale', 'commutative')


def unique_id():
    """128 bytes that name a new comm: made by one rank, handed to the others by any means."""
    out = UniqueId()
    lib.plait_unique_id_create(ctypes.byref(out))
    return bytes(out.bytes)


def _pointers(blocks):
    """counts and starts as the library takes them."""
    return [None, None] if blocks is None else [blocks.counts, blocks.given]


def _round(name, value):
    if value not in ROUNDS:
        raise ArgError(f'{name}: round is {value!r}; it must be one of {", ".join(ROUNDS)}')
    return ROUNDS.index(value)


class Comm:
    """A numbered group of ranks (processes or threads) that call collectives together.

    Every rank calls the same collectives in the same order. Arrays are contiguous and of one dtype: NumPy's integers
    and floats, or with dtype="bfloat16", "float8e4m3" or "float8e5m2" arrays of uint16 and uint8 with their bits.
    Results go into the array that is given, or into `out`; each collective returns the array with its result.

    op       "sum", "prod", "max", "min", "avg", "premulsum" (with scale=), or a function f(a, b) of two arrays that
             returns a third. It must be associative; with commutative=True the library may choose the order. It runs
             inside the call, may not keep its arguments, nor call this package.
    counts   of the forms that end in v: elements of each rank's part
    starts   where the parts begin, in elements; None: one behind the other

    Options of each call, by keyword: algorithm, slice (bytes), round ("once" or "hop"), reproducible, deadline
    (seconds), scale, commutative. They mean what <plait/coll.h> says.

    Errors are plait.Error and its classes. ArgError, UnsupportedError and ConfigError change nothing; after any other
    the comm has failed: leave it and make a new one. Signals, Ctrl-C too, are handled when a call returns.
    """

    def __init__(self):
        raise TypeError('a comm is made by Comm.create(nrank, rank, id)')

    @classmethod
    def create(cls, nrank, rank, id=None, *, name=None, timeout=0, deadline=0, warn=0, reproducible=False,
               round='default', node=None):  # pylint: disable=redefined-builtin
        """Meet the other ranks that have the same id. The keywords are those of `struct plait_comm_options`."""
        if id is not None and (not isinstance(id, bytes) or len(id) != ctypes.sizeof(UniqueId)):
            raise ArgError(f'create: id is {id!r:.60}; it must be {ctypes.sizeof(UniqueId)} bytes from unique_id()')
        if node is not None and len(node) != nrank:
            raise ArgError(f'create: node has {len(node)} numbers; it must have one for each of {nrank} ranks')
        nrank, rank = operator.index(nrank), operator.index(rank)
        for what, value in (('nrank', nrank), ('rank', rank)):
            if not 0 <= value < 1 << 32:
                raise ArgError(f'create: {what} is {value}; it must be 0 or more')
        options = CommOptions(ctypes.sizeof(CommOptions), nrank, rank, None, None if name is None else name.encode(),
                              timeout, deadline, warn, bool(reproducible), _round('create', round))
        if id is not None:
            options.id = ctypes.pointer(UniqueId.from_buffer_copy(id))
        if node is not None:
            options.node = (ctypes.c_uint32 * nrank)(*node)
        handle = ctypes.c_void_p()
        lib.plait_comm_create(ctypes.byref(options), ctypes.byref(handle))
        self = object.__new__(cls)
        self._handle, self.nrank, self.rank, self.name = handle, nrank, rank, name or 'comm'
        self._held = []  # what the library may still read after a failure
        return self

    def destroy(self):
        """Leave the comm. Raises the comm's error if it has failed; it is gone in any case."""
        handle, self._handle = self._handle, None
        try:
            lib.plait_comm_destroy(handle)
        finally:
            self._held.clear()

    def abort(self, reason=None):
        """Make the comm fail on all ranks, with this reason; from any thread."""
        lib.plait_comm_abort(self._open('abort'), None if reason is None else str(reason).encode())

    def stats(self):
        """What this rank has counted since creation, as a dictionary (`struct plait_comm_stats`)."""
        out = CommStats()
        lib.plait_comm_stats(self._open('stats'), ctypes.byref(out))
        return {field: getattr(out, field) for field, _ in CommStats._fields_}

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _trace):
        """Leave the comm; an exception is told to the other ranks, which would wait for this one."""
        if self._handle is None:
            return
        if error is None or isinstance(error, SystemExit):
            self.destroy()
            return
        try:
            self.abort(f'{kind.__name__}: {error}')
            self.destroy()
        except Error:
            pass  # the first error is on its way

    def __del__(self):
        if getattr(self, '_handle', None) is not None:
            warnings.warn(f"comm '{self.name}' was not destroyed; use `with` or destroy()", ResourceWarning)

    def __repr__(self):
        return f"<plait.Comm '{self.name}' rank {self.rank} of {self.nrank}>"

    # ---- Collectives ----------------------------------------------------------------------------

    def barrier(self, **options):
        """Return when every rank has called it."""
        self._run('barrier', {}, [], options=options)

    def allreduce(self, x, op='sum', out=None, dtype=None, **options):
        """Combine x over all ranks; every rank gets the result."""
        self._input('allreduce', x)
        out = self._result('allreduce', x, out)
        self._same('allreduce', 'out', out, 'x', x, 1)
        self._run('allreduce', {'x': x, 'out': out}, [x, out, x.size], dtype, op, options=options)
        return out

    def reduce(self, x, op='sum', root=0, out=None, dtype=None, **options):
        """Combine x over all ranks; the root gets the result, the others None."""
        self._input('reduce', x)
        out = self._result('reduce', x, out) if self.rank == root else None
        if self.rank == root:
            self._same('reduce', 'out', out, 'x', x, 1)
        self._run('reduce', {'x': x, 'out': out}, [x, out, x.size], dtype, op, root, options=options)
        return out

    def broadcast(self, x, root=0, out=None, dtype=None, **options):
        """Give every rank the root's x: in x, or in `out` (then x is looked at on the root only)."""
        out = self._result('broadcast', x, out)
        if self.rank == root:
            self._input('broadcast', x)
            self._same('broadcast', 'x', x, 'out', out, 1)
        else:
            x = None
        self._run('broadcast', {'x': x, 'out': out}, [x, out, out.size], dtype, root=root, options=options)
        return out

    def reduce_scatter(self, x, op='sum', out=None, dtype=None, **options):
        """Combine x over all ranks; every rank gets its part of the result, where its part of x is or in `out`."""
        x, out = self._give('reduce_scatter', x, out)
        self._run('reduce_scatter', {'x': x, 'out': out}, [x, out, out.size], dtype, op, options=options)
        return out

    def allgather(self, x, out=None, dtype=None, **options):
        """Give every rank every rank's x, in `out`. Without `out` x is the whole, with one's own part in its place."""
        x, out = self._get('allgather', x, out)
        self._run('allgather', {'x': x, 'out': out}, [x, out, x.size], dtype, options=options)
        return out

    def gather(self, x, root=0, out=None, dtype=None, **options):
        """Give the root every rank's x, in `out`, others None. Without `out` the root's x is as in allgather."""
        self._input('gather', x)
        x, out = self._get('gather', x, out) if self.rank == root else (x, None)
        self._run('gather', {'x': x, 'out': out}, [x, out, x.size], dtype, root=root, options=options)
        return out

    def scatter(self, x, root=0, out=None, dtype=None, **options):
        """Give every rank its part of the root's x, in `out`. Without `out` it stays where it is in the root's x, and
        goes into the others' x, which have the size of a part."""
        x, out = self._give('scatter', x, out) if self.rank == root else (None, self._result('scatter', x, out))
        self._run('scatter', {'x': x, 'out': out}, [x, out, out.size], dtype, root=root, options=options)
        return out

    def alltoall(self, x, out, dtype=None, **options):
        """Give every rank its part of x, and get one from each in `out`."""
        self._input('alltoall', x)
        self._output('alltoall', 'out', out)
        self._same('alltoall', 'out', out, 'x', x, 1)
        part = self._part('alltoall', 'x', x)
        self._run('alltoall', {'x': x, 'out': out}, [x, out, part.size], dtype, options=options)
        return out

    # ---- The same with parts of different sizes ---------------------------------------------------

    def reduce_scatterv(self, x, counts, op='sum', out=None, starts=None, dtype=None, **options):
        """reduce_scatter with counts[r] elements for rank r."""
        blocks = self._blocks('reduce_scatterv', 'counts', counts, starts)
        x, out = self._give('reduce_scatterv', x, out, blocks)
        self._run('reduce_scatterv', {'x': x, 'out': out}, [x, out, *_pointers(blocks)], dtype, op, options=options)
        return out

    def allgatherv(self, x, counts, out=None, starts=None, dtype=None, **options):
        """allgather with counts[r] elements from rank r."""
        blocks = self._blocks('allgatherv', 'counts', counts, starts)
        x, out = self._get('allgatherv', x, out, blocks)
        self._run('allgatherv', {'x': x, 'out': out}, [x, out, *_pointers(blocks)], dtype, options=options)
        return out

    def gatherv(self, x, counts=None, root=0, out=None, starts=None, dtype=None, **options):
        """gather with counts[r] elements from rank r; the root says counts."""
        self._input('gatherv', x)
        blocks = self._blocks('gatherv', 'counts', counts, starts) if self.rank == root else None
        x, out = self._get('gatherv', x, out, blocks) if self.rank == root else (x, None)
        self._run('gatherv', {'x': x, 'out': out}, [x, x.size, out, *_pointers(blocks)], dtype, root=root,
                  options=options)
        return out

    def scatterv(self, x, counts=None, root=0, out=None, starts=None, dtype=None, **options):
        """scatter with counts[r] elements for rank r; the root says counts."""
        blocks = self._blocks('scatterv', 'counts', counts, starts) if self.rank == root else None
        x, out = self._give('scatterv', x, out, blocks) if self.rank == root else \
            (None, self._result('scatterv', x, out))
        self._run('scatterv', {'x': x, 'out': out}, [x, *_pointers(blocks), out, out.size], dtype, root=root,
                  options=options)
        return out

    def alltoallv(self, x, counts, out, out_counts, starts=None, out_starts=None, dtype=None, **options):
        """alltoall with counts[r] elements of x for rank r and out_counts[r] of `out` from it."""
        sent = self._blocks('alltoallv', 'counts', counts, starts)
        got = self._blocks('alltoallv', 'out_counts', out_counts, out_starts)
        self._input('alltoallv', x)
        self._output('alltoallv', 'out', out)
        sent.fit('x', x)
        got.fit('out', out)
        self._run('alltoallv', {'x': x, 'out': out}, [x, *_pointers(sent), out, *_pointers(got)], dtype,
                  options=options)
        return out

    # ---- Arguments --------------------------------------------------------------------------------

    def _open(self, name):
        if self._handle is None:
            raise ArgError(f"{name}: comm '{self.name}' was destroyed")
        return self._handle

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
        """Has this rank's part its size?"""
        if blocks is None:
            self._same(name, other, whole, what, part, self.nrank)
        elif part.size != blocks.counts[self.rank]:
            raise ArgError(f'{name}: {what} has {part.size} elements, but counts[{self.rank}], of this rank, is '
                           f'{blocks.counts[self.rank]}')

    def _blocks(self, name, what, counts, starts):
        return _arrays.Blocks(name, what, counts, starts, self.nrank)

    # ---- Calling ----------------------------------------------------------------------------------

    @staticmethod
    def _call_of(name, options):
        for option in options:
            if option not in _OPTIONS:
                raise TypeError(f'{name}: there is no option {option!r}; there are {", ".join(_OPTIONS)}')
        algorithm = options.get('algorithm')
        return Call(ctypes.sizeof(Call), algorithm=None if algorithm is None else algorithm.encode(),
                    slice=options.get('slice', 0), round=_round(name, options.get('round', 'default')),
                    reproducible=bool(options.get('reproducible', False)), deadline=options.get('deadline', 0))

    def _run(self, name, arrays, arguments, dtype=None, op=None, root=None, *, options):
        """Call plait_NAME(comm, arguments..., type, op, root, options), as far as it has them."""
        call, function, scale = self._call_of(name, options), None, options.get('scale')
        arrays = {what: array for what, array in arrays.items() if array is not None}
        arguments = [a if isinstance(a, int) else _arrays.address(a) for a in arguments]
        if arrays:
            arguments.append(_arrays.type_of(name, arrays, dtype))
            dtype = next(iter(arrays.values())).dtype
        if op is not None:
            arguments.append(_operators.find(name, op))
        if callable(op):
            function = _operators.Function(op, dtype, options.get('commutative', False))
            call.user = ctypes.pointer(function.struct)
        elif 'commutative' in options:
            raise ArgError(f'{name}: commutative is given, but op is {op!r}; it is a promise of a function')
        if scale is not None:
            scale = _arrays.scalar(name, scale, dtype)
            call.scale = _arrays.address(scale)
        if root is not None:
            root = operator.index(root)
            if root < 0:
                raise ArgError(f'{name}: root is {root}, but the comm has ranks 0 to {self.nrank - 1}')
            arguments.append(root)
        try:
            with function or contextlib.nullcontext():
                getattr(lib, 'plait_' + name)(self._open(name), *arguments, ctypes.byref(call))
        except HARMLESS:
            raise
        except Error:
            self._held.append(list(arrays.values()))
            raise
        finally:
            if function is not None and function.error is not None:
                self.abort(f'the operator raised {function.error!r}')
                raise function.error
