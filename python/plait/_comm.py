# SPDX-License-Identifier: BSD-3-Clause
"""Communicators and their collectives."""
import collections
import ctypes
import operator
import threading
import warnings

from . import _arrays, _dlpack, _elastic, _fusion, _interrupt
from ._call import FORMS, Caller, pointers, rounding
from ._documented import document
from ._errors import ArgError, Error
from ._group import join
from ._library import NO_COLOR, CommCount, CommHandle, CommMemory, CommOptions, CommStats, LaunchStruct, PeerInfo, \
    UniqueId, lib

_forgotten = []  # what the library may use as long as the process lives


class Id(bytes):
    """The bytes of an id. They contain the secret of its ranks, so neither repr() nor print() shows them."""

    __slots__ = ()

    def __repr__(self):
        return f'<id of {len(self)} bytes>'

    __str__ = __repr__


def unique_id(tcp=False, ifname=None):
    """128 bytes that identify a new comm: created by one rank, passed to the others by any means.

    tcp     for ranks on several hosts: made on rank 0's, and secret, as who has it may join
    ifname  then, interfaces in the syntax of PLAIT_IFNAME
    """
    out = UniqueId()
    if tcp or ifname is not None:
        lib.plait_unique_id_create_tcp(_arrays.text('unique_id', 'ifname', ifname), ctypes.byref(out))
    else:
        lib.plait_unique_id_create(ctypes.byref(out))
    return Id(out.bytes)


class Launch(collections.namedtuple('Launch', 'launcher rank nrank local_rank local_nrank id')):
    """The result of launch()."""

    __slots__ = ()


def launch():
    """This process's rank and the id of its job, as torchrun, Slurm or mpirun says (<plait/launch.h>).

        l = plait.launch()
        comm = plait.Comm.create(l.nrank, l.rank, l.id)

    Without a launcher it is the only rank, and the launcher "none".
    """
    out = LaunchStruct()
    lib.plait_launch_find(ctypes.byref(out))
    return Launch(out.launcher.decode(), out.rank, out.nrank, out.local_rank, out.local_nrank, Id(out.id.bytes))


@document
@_dlpack.accept
class Comm(Caller):
    """A numbered group of ranks (processes or threads) that call collectives together.

    Every rank calls the same collectives in the same order. Arrays are contiguous and of one dtype: NumPy's integers
    and floats, or with dtype="bfloat16", "float8e4m3" or "float8e5m2" arrays of uint16 and uint8 with their bits.
    Results go into the array that is given, or into `out`; each collective returns the array with its result. x and out
    may be arrays of other packages in the host's memory, if they have __dlpack__() (PyTorch's tensors, bfloat16 too).

    help(Comm.allreduce) and so on lists the options of a call. A function as op must be associative; it runs inside
    the call, may not keep its arguments, nor call this package. In plait.group() calls return at once, and have ended
    when the group has.

    Errors are plait.Error and its classes. ArgError, UnsupportedError and ConfigError change nothing; after any other
    the comm has failed: leave it and make a new one.

    Signal handlers run about ten times a second while a call of the main thread waits. A handler that raises, as that
    of Ctrl-C does, ends the call: the comm is aborted, and the call raises that exception. A handler may abort the
    comm, but not wait for it.
    """

    def __init__(self):
        raise TypeError('a comm is made by Comm.create(nrank, rank, id)')

    @classmethod
    def create(cls, nrank, rank, id=None, *, name=None, timeout=0, deadline=0, warn=0, reproducible=False,
               round='default', node=None, progress=False,
               background=False):  # pylint: disable=redefined-builtin
        """Meet the other ranks that have the same id. All but rank, progress and background must be equal on all.

        nrank         number of ranks
        rank          this one's number, from 0
        id            of unique_id() or launch(); None (default) for a single rank

        Options, by keyword:
        name          for messages and logs; None (default): "comm"
        timeout       seconds to wait for all ranks; 0 (default): PLAIT_TIMEOUT (60)
        deadline      seconds until a stalled operation fails; 0 (default): PLAIT_DEADLINE (600)
        warn          seconds until a warning names a stall; 0 (default): PLAIT_WARN (30)
        reproducible  True: bits that do not depend on algorithm or placement; False (default): PLAIT_REPRODUCIBLE
        round         rounding of 16- and 8-bit types: "once" at the end, or "hop", at every step; "default": once where
                      it costs no bytes
        node          number of the node of each rank, as algorithms see it; None (default): as found
        progress      True: a thread drives pending operations; False (default)
        background    True: return at once, and see ready(); False (default)
        """
        if id is not None and (not isinstance(id, bytes) or len(id) != ctypes.sizeof(UniqueId)):
            # Not its text, which is a secret.
            what = f'{len(id)} bytes' if isinstance(id, bytes) else f'of type {type(id).__name__}'
            raise ArgError(f'create: id is {what}; it must be {ctypes.sizeof(UniqueId)} bytes from unique_id()')
        if node is not None and len(node) != nrank:
            raise ArgError(f'create: node has {len(node)} numbers; it must have one for each of {nrank} ranks')
        nrank, rank = operator.index(nrank), operator.index(rank)
        for what, value in (('nrank', nrank), ('rank', rank)):
            if not 0 <= value < 1 << 32:
                raise ArgError(f'create: {what} is {value}; it must be 0 to {(1 << 32) - 1}')
        if id is None and nrank > 1:
            raise ArgError(f'create: id is None, but nrank is {nrank}; pass one of unique_id() or launch()')
        options = CommOptions(ctypes.sizeof(CommOptions), nrank, rank, None, _arrays.text('create', 'name', name),
                              timeout, deadline, warn,
                              bool(reproducible), rounding('create', round),
                              progress=bool(progress), background=bool(background))
        if id is not None:
            options.id = ctypes.pointer(UniqueId.from_buffer_copy(id))
        if node is not None:
            options.node = (ctypes.c_uint32 * nrank)(*node)
        return cls._make(lib.plait_comm_create, ctypes.byref(options))

    @classmethod
    def _make(cls, function, *arguments):
        """The comm that function(arguments, out) creates, at once or at the end of this thread's group."""
        self = object.__new__(cls)
        self._handle, self._leaving = ctypes.POINTER(CommHandle)(), threading.Lock()
        self.nrank = self.rank = self.name = None
        self._told = False  # has a call raised the error with which it failed?
        self._held = []  # what the library may still use after a failure
        self._requests = set()  # pending ones, and persistent ones
        _interrupt.watch()
        function(*arguments, ctypes.byref(self._handle))
        if not join(lambda _error: self._introduce(arguments)):
            self._introduce(arguments)
        return self

    def _introduce(self, _arguments):  # which the library may read until now
        if self._handle:
            self.nrank, self.rank = lib.plait_comm_nrank(self._handle), lib.plait_comm_rank(self._handle)
            self.name = lib.plait_comm_name(self._handle).decode()

    # ---- Comms of comms ---------------------------------------------------------------------------

    def split(self, color, key=0, name=None):
        """Split into one comm for each color (0 or more), with ranks in the order of their keys. A rank with color
        None joins none, and gets None."""
        color = NO_COLOR if color is None else operator.index(color)
        part = self._make(lib.plait_comm_split, self._open('split'), color, operator.index(key),
                          _arrays.text('split', 'name', name))
        return None if color == NO_COLOR else part

    def duplicate(self, name=None):
        """A comm of the same ranks."""
        return self._make(lib.plait_comm_duplicate, self._open('duplicate'), _arrays.text('duplicate', 'name', name))

    def fusion(self, tensors, *, op='sum', layout=4 << 20, payload=None, round='default', reproducible=False,
               check=False, progress=True, trace=False, name=None):  # pylint: disable=redefined-builtin
        """A plait.Fusion of these gradients, {name: array, or (shape, dtype)} in the order in which they become ready.

        op            "sum" (default) or "avg"
        layout        bytes of a bucket (4 MiB), a list of the numbers of tensors at which buckets begin, as
                      Forecast.cuts() finds them, or "cubic"
        payload       "float16" or "bfloat16": what float32 gradients travel as; None (default): as they are
        round         "once", "hop" or "default", as in Comm.create()
        reproducible  True: bits that do not depend on algorithm or placement; False (default): as the comm says
        check         True: wait_all() tells whether everything was finite; False (default)
        progress      True (default): a thread drives the buckets meanwhile
        trace         True: record times for trace(); False (default)
        name          for messages; None (default): "fusion"
        """
        options, _kept = _fusion.options_of(op, layout, payload, round, reproducible, check, progress, trace, name)
        return _fusion.Fusion(self._open('fusion'), tensors, options)

    def elastic(self, weights, *, mode='sync3', count=None, period=1, beta=None, rho=0.0, lr=0.0, momentum=0.0,
                payload='float32', servers=0, threads=0, reproducible=False, algorithm=None,
                name=None):
        """A plait.Elastic of these float32 weights; the centre starts as rank 0's.

        weights       None on a server, which gives count
        mode          "original", "async", "async-momentum", "hogwild", "sync1", "sync2" or "sync3" (default)
        count         number of weights; None (default): as weights has
        period        steps between exchanges (1)
        beta          workers times the pull; None (default): 0.9, or with rho, when the pull is lr rho, nothing
        rho, lr       the pull is lr rho; 0.0 (default): beta says it
        momentum      of step(); 0.0 (default): none, and 0.9 in "async-momentum"
        payload       type of the differences to the centre: "float32" (default), "float16" or "bfloat16"
        servers       of the modes that have them, the last ranks of the comm; they call serve(); 0 (default): one
        threads       of a server of "hogwild"; 0 (default): 2
        reproducible  True: bits that do not depend on sync mode, algorithm and slices; False (default)
        algorithm     of the all-reduce of "sync2" and "sync3"; None (default): chosen by the library
        name          for messages; None (default): "elastic"
        """
        options = _elastic.options_of(mode, weights, count, period, beta, rho, lr, momentum, payload, servers, threads,
                                      reproducible, algorithm, name)
        return _elastic.Elastic(self, weights, options)

    def shrink(self, excluded, abort=False, name=None):
        """A comm without these ranks, which may be dead; this comm may have failed. All remaining ranks must exclude
        the same ones. abort=True first stops operations in flight, as revoke() does."""
        excluded = [operator.index(r) for r in excluded]
        return self._make(lib.plait_comm_shrink, self._open('shrink'), (ctypes.c_uint32 * len(excluded))(*excluded),
                          len(excluded), bool(abort), _arrays.text('shrink', 'name', name))

    # ---- Its life ---------------------------------------------------------------------------------

    def destroy(self):
        """Leave the comm after pending operations have ended. Raises the comm's error if it has failed; it is destroyed
        in any case."""
        for request in list(self._requests):
            request.settle()
        with self._leaving:
            handle, self._handle = self._handle, ctypes.POINTER(CommHandle)()
        try:
            lib.plait_comm_destroy(handle)
        finally:
            self._held.clear()

    def abort(self, reason=None):
        """Make the comm fail on all ranks, with this reason; from any thread."""
        with self._leaving:
            lib.plait_comm_abort(self._open('abort'), _arrays.reason(reason))

    def ready(self):
        """Has it been created (True), or is creation still in progress (False)? Raises the error of creation, or of the
        failed comm. (plait_comm_status)"""
        return lib.plait_comm_status(self._open('ready')) == 0

    def finalize(self):
        """Complete pending operations and wait until no rank reads this rank's memory, so that destroy() does not wait.
        Collective; no further operation is allowed."""
        lib.plait_comm_finalize(self._open('finalize'))

    def revoke(self):
        """Stop operations in flight on every rank, as abort() does, and wait until none is pending on this one."""
        lib.plait_comm_revoke(self._open('revoke'))

    def suspend(self):
        """Free staging memory until resume(). Collective; calls are refused meanwhile."""
        lib.plait_comm_suspend(self._open('suspend'))

    def resume(self):
        """End suspend(). Collective."""
        lib.plait_comm_resume(self._open('resume'))

    def waited(self, peer):
        """Seconds that this rank has waited for `peer`."""
        return lib.plait_comm_waited(self._open('waited'), self._rank('waited', 'peer', peer))

    def peer(self, rank):
        """How this rank reaches `rank`, as a dictionary (`struct plait_peer_info`)."""
        out = PeerInfo()
        lib.plait_comm_peer(self._open('peer'), self._rank('peer', 'rank', rank), ctypes.byref(out))
        return {'transport': out.transport.decode(), 'device': out.device.decode(), 'node': out.node,
                'gpu': out.gpu.decode(), 'shares': out.shares.decode()}

    def memory(self):
        """Memory of this rank's end in bytes, as a dictionary (`struct plait_comm_memory`)."""
        out = CommMemory()
        lib.plait_comm_memory(self._open('memory'), ctypes.byref(out))
        return {field: getattr(out, field) for field, _ in CommMemory._fields_}

    def count(self):
        """Operations of this rank by collective and algorithm: a list of dictionaries (`struct plait_comm_count`)."""
        handle, result, out = self._open('count'), [], CommCount()
        while lib.plait_comm_count(handle, len(result), ctypes.byref(out)) == 0:
            result.append({'coll': lib.plait_coll_name(out.coll).decode(), 'algorithm': out.algorithm.decode(),
                           'operations': out.operations, 'bytes': out.bytes})
        return result

    def stats(self):
        """Counters of this rank since creation, as a dictionary (`struct plait_comm_stats`)."""
        out = CommStats()
        lib.plait_comm_stats(self._open('stats'), ctypes.byref(out))
        return {field: getattr(out, field) for field, _ in CommStats._fields_}

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _trace):
        """Leave the comm. On an exception it is aborted with that text, since the other ranks would wait for this one.
        The comm's error is raised only if no call has raised it yet and no other exception is active."""
        if not self._handle:
            return
        try:
            if error is not None and not isinstance(error, SystemExit):
                self.abort(f'{kind.__name__}: {error}')
            self.destroy()
        except Error:
            if error is None and not self._told:
                raise

    def __del__(self):
        if getattr(self, '_handle', None):
            _forgotten.append((self._held, self._requests))
            warnings.warn(f"comm '{self.name}' was not destroyed; use `with` or destroy()", ResourceWarning)

    def __repr__(self):
        return f"<plait.Comm '{self.name}' rank {self.rank} of {self.nrank}>"

    # ---- Collectives ----------------------------------------------------------------------------

    def barrier(self, **options):
        """Return when every rank has called it."""
        return self._run('barrier', {}, [], options=options)

    def allreduce(self, x, op='sum', out=None, dtype=None, **options):
        """Combine x over all ranks; every rank gets the result."""
        self._input('allreduce', x)
        out = self._result('allreduce', x, out)
        self._same('allreduce', 'out', out, 'x', x, 1)
        return self._run('allreduce', {'x': x, 'out': out}, [x, out, x.size], dtype, op, result=out, options=options)

    def reduce(self, x, op='sum', root=0, out=None, dtype=None, **options):
        """Combine x over all ranks; the root gets the result, the others None."""
        self._input('reduce', x)
        out = self._result('reduce', x, out) if self.rank == root else None
        if self.rank == root:
            self._same('reduce', 'out', out, 'x', x, 1)
        return self._run('reduce', {'x': x, 'out': out}, [x, out, x.size], dtype, op, ('root', root), result=out,
                         options=options)

    def broadcast(self, x, root=0, out=None, dtype=None, **options):
        """Give every rank the root's x: in x, or in `out` (then only the root uses x)."""
        out = self._result('broadcast', x, out)
        if self.rank == root:
            self._input('broadcast', x)
            self._same('broadcast', 'x', x, 'out', out, 1)
        else:
            x = None
        return self._run('broadcast', {'x': x, 'out': out}, [x, out, out.size], dtype, rank=('root', root),
                         result=out, options=options)

    def reduce_scatter(self, x, op='sum', out=None, dtype=None, **options):
        """Combine x over all ranks; every rank gets its part of the result: in `out`, or in its part of x."""
        x, out = self._give('reduce_scatter', x, out)
        return self._run('reduce_scatter', {'x': x, 'out': out}, [x, out, out.size], dtype, op, result=out,
                         options=options)

    def allgather(self, x, out=None, dtype=None, **options):
        """Give every rank every rank's x, in `out`. Without `out`, x is the whole, with this rank's part in place."""
        x, out = self._get('allgather', x, out)
        return self._run('allgather', {'x': x, 'out': out}, [x, out, x.size], dtype, result=out, options=options)

    def gather(self, x, root=0, out=None, dtype=None, **options):
        """Give the root every rank's x, in `out`, others None. Without `out` the root's x is as in allgather."""
        self._input('gather', x)
        x, out = self._get('gather', x, out) if self.rank == root else (x, None)
        return self._run('gather', {'x': x, 'out': out}, [x, out, x.size], dtype, rank=('root', root), result=out,
                         options=options)

    def scatter(self, x, root=0, out=None, dtype=None, **options):
        """Give every rank its part of the root's x, in `out`. Without `out`, the root's part stays in its x, and the
        other ranks' x, of the size of a part, get theirs."""
        x, out = self._give('scatter', x, out) if self.rank == root else (None, self._result('scatter', x, out))
        return self._run('scatter', {'x': x, 'out': out}, [x, out, out.size], dtype, rank=('root', root), result=out,
                         options=options)

    def alltoall(self, x, out, dtype=None, **options):
        """Give every rank its part of x, and get one from each in `out`."""
        self._input('alltoall', x)
        self._output('alltoall', 'out', out)
        self._same('alltoall', 'out', out, 'x', x, 1)
        part = self._part('alltoall', 'x', x)
        return self._run('alltoall', {'x': x, 'out': out}, [x, out, part.size], dtype, result=out, options=options)

    # ---- The same with parts of different sizes ---------------------------------------------------

    def reduce_scatterv(self, x, counts, op='sum', out=None, starts=None, dtype=None, **options):
        """reduce_scatter with counts[r] elements for rank r."""
        blocks = self._blocks('reduce_scatterv', 'counts', counts, starts)
        x, out = self._give('reduce_scatterv', x, out, blocks)
        return self._run('reduce_scatterv', {'x': x, 'out': out}, [x, out, *pointers(blocks)], dtype, op, result=out,
                         options=options)

    def allgatherv(self, x, counts, out=None, starts=None, dtype=None, **options):
        """allgather with counts[r] elements from rank r."""
        blocks = self._blocks('allgatherv', 'counts', counts, starts)
        x, out = self._get('allgatherv', x, out, blocks)
        return self._run('allgatherv', {'x': x, 'out': out}, [x, out, *pointers(blocks)], dtype, result=out,
                         options=options)

    def gatherv(self, x, counts=None, root=0, out=None, starts=None, dtype=None, **options):
        """gather with counts[r] elements from rank r; only the root gives counts."""
        self._input('gatherv', x)
        blocks = self._blocks('gatherv', 'counts', counts, starts) if self.rank == root else None
        x, out = self._get('gatherv', x, out, blocks) if self.rank == root else (x, None)
        return self._run('gatherv', {'x': x, 'out': out}, [x, x.size, out, *pointers(blocks)], dtype,
                         rank=('root', root), result=out, options=options)

    def scatterv(self, x, counts=None, root=0, out=None, starts=None, dtype=None, **options):
        """scatter with counts[r] elements for rank r; only the root gives counts."""
        blocks = self._blocks('scatterv', 'counts', counts, starts) if self.rank == root else None
        x, out = self._give('scatterv', x, out, blocks) if self.rank == root else \
            (None, self._result('scatterv', x, out))
        return self._run('scatterv', {'x': x, 'out': out}, [x, *pointers(blocks), out, out.size], dtype,
                         rank=('root', root), result=out, options=options)

    def alltoallv(self, x, counts, out, out_counts, starts=None, out_starts=None, dtype=None, **options):
        """alltoall with counts[r] elements of x for rank r and out_counts[r] of `out` from it."""
        sent = self._blocks('alltoallv', 'counts', counts, starts)
        got = self._blocks('alltoallv', 'out_counts', out_counts, out_starts)
        self._input('alltoallv', x)
        self._output('alltoallv', 'out', out)
        sent.fit('x', x)
        got.fit('out', out)
        return self._run('alltoallv', {'x': x, 'out': out}, [x, *pointers(sent), out, *pointers(got)], dtype,
                  result=out, options=options)

    # ---- Messages ---------------------------------------------------------------------------------

    def send(self, x, to, dtype=None, **options):
        """Send x to a rank. The k-th message to it matches its k-th receive from this rank, of the same size and dtype.
        It may return before that."""
        self._input('send', x)
        return self._run('send', {'x': x}, [x, x.size], dtype, rank=('to', to), options=options, allowed=FORMS)

    def recv(self, out, source, dtype=None, **options):
        """Receive `out` from a rank."""
        self._output('recv', 'out', out)
        return self._run('recv', {'out': out}, [out, out.size], dtype, rank=('source', source), result=out,
                         options=options, allowed=FORMS)
