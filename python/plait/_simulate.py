# SPDX-License-Identifier: BSD-3-Clause
"""Predictions (simulate.h, forecast.h): how long a collective takes on a machine that is described."""
from __future__ import annotations

import collections.abc
import ctypes
import operator
import os
import typing

from . import _arrays
from ._errors import ArgError
from ._fusion import NO_TYPE, layout_of
from ._library import (SIM_KINDS, ForecastHandle, ForecastOptions, HearEvent, HearUse, MachineStruct, PredictionStruct,
                       Shape, SimOptions, StepTimeStruct, Tensor, Training, TrainingBucket, lib)

# ---- Machines --------------------------------------------------------------------------------------

def _check(where, given, needed):
    if not isinstance(given, collections.abc.Mapping):
        raise TypeError(f'Machine: {where} is {given!r}, of type {type(given).__name__}; it must be a dict')
    for key in needed:
        if key not in given:
            raise ArgError(f'Machine: {where} has no {key!r}, which it needs')


def _change(m, text):
    lib.plait_machine_change(ctypes.byref(m), _arrays.text('Machine', 'description', text))


def _fill(m, prefix, given, others):
    """Set the fields of the machine, or those of a level, that are numbers."""
    for key, value in sorted(given.items(), key=lambda item: item[0] == 'oversubscription'):  # of the other fields
        if str(value)[:1] in ('/', '*'):
            raise ArgError(f'Machine: {prefix}{key} is {value!r}; it must be a number, or one with a unit')
        if key not in others:
            _change(m, f'{prefix}{key}={value}')


def _set_texts(struct, where, given):
    for key in ('name', 'about'):
        if key not in given:
            continue
        text, room = _arrays.text('Machine', f'{key} of {where}', given[key]) or b'', getattr(type(struct), key).size
        if not 0 < len(text) < room:
            raise ArgError(f'Machine: {key} of {where} is {text.decode()!r}; it must be text of 1 to {room - 1} bytes')
        setattr(struct, key, text)


def _list(given, key, room):
    if not isinstance(given.get(key, []), (list, tuple)) or len(given.get(key, [])) > room:
        raise ArgError(f'Machine: {key!r} is {given[key]!r}; it must be a list of at most {room}')
    return given.get(key, [])


def _slow(m, where, given):
    """Slow links, or a slow rank."""
    _check(where, given, ['percent'])
    if given.keys() not in ({'percent', 'rank'}, {'percent', 'links'}) or not isinstance(given['percent'], int):
        raise ArgError(f'Machine: {where} is {given!r}; it needs "percent": a whole number, and either "rank": a '
                       'number, or "links": a unit, such as "host 0"')
    _change(m, f'rank {given["rank"]}=/1' if 'rank' in given else f'{given["links"]} links=/1')
    m.slow[m.nslow - 1].percent = max(0, min(given['percent'], 101))  # plait_machine_check() refuses both


class Machine:
    """A machine, which need not exist.

        m = plait.Machine({'name': 'two hosts', 'copy': '10 GB/s', 'reduce': '8 GB/s', 'levels': [
            {'name': 'host', 'children': 4, 'bandwidth': '10 GB/s', 'latency': '200 ns'},
            {'name': 'cluster', 'children': 2, 'links': 1, 'bandwidth': '100 Gbit/s', 'latency': '2 us'}]})
        m = plait.Machine('cluster.json')

    description  path of a machine file, or a dict with its fields; docs/predict.md describes them. Numbers are bytes
                 per second, nanoseconds and bytes
    """

    def __init__(self, description: typing.Union[dict, str, os.PathLike]):
        m = self._struct = MachineStruct()
        if isinstance(description, (str, os.PathLike)):
            lib.plait_machine_load(os.fsencode(description), ctypes.byref(m))
            return
        _check('the machine', description, ['name', 'levels'])
        levels = _list(description, 'levels', len(m.level))
        m.nlevel = len(levels)
        for k, given in enumerate(levels):
            _check(f'levels[{k}]', given, ['name', 'children', 'latency'])
            m.level[k].name = f'levels[{k}]'.encode()  # for messages, and until all are filled
        _fill(m, '', description, ('name', 'about', 'levels', 'slow'))
        for k, given in enumerate(levels):
            _fill(m, f'levels[{k}].', given, ('name', 'about'))
        _set_texts(m, 'the machine', description)
        for k, given in enumerate(levels):
            _set_texts(m.level[k], f'levels[{k}]', given)
        for k, given in enumerate(_list(description, 'slow', len(m.slow))):
            _slow(m, f'slow[{k}]', given)
        lib.plait_machine_check(ctypes.byref(m))

    def changed(self, changes: str) -> Machine:
        """Another machine, as for --what-if of plait-plan: "rack.uplink=/4,rank 5=/2"; plait_machine_change()."""
        other = object.__new__(Machine)
        other._struct = MachineStruct.from_buffer_copy(self._struct)
        lib.plait_machine_change(ctypes.byref(other._struct), _arrays.text('changed', 'changes', changes))
        lib.plait_machine_check(ctypes.byref(other._struct))
        return other

    def save(self, path: typing.Union[str, os.PathLike]) -> None:
        """Write it as a machine file."""
        lib.plait_machine_save(ctypes.byref(self._struct), os.fsencode(path))

    @property
    def name(self) -> str:
        return self._struct.name.decode()

    @property
    def ranks(self) -> int:
        """For which it has room."""
        return lib.plait_machine_ranks(ctypes.byref(self._struct))

    @property
    def resources(self) -> typing.List[str]:
        """Names of its links, memory and processors."""
        names, room = [], ctypes.create_string_buffer(64)
        for k in range(lib.plait_machine_resources(ctypes.byref(self._struct))):
            lib.plait_machine_resource(ctypes.byref(self._struct), k, room, len(room))
            names.append(room.value.decode())
        return names


# ---- One operation ---------------------------------------------------------------------------------


class Path(typing.NamedTuple):
    """Where the time of the longest chain of dependent events goes, in seconds."""

    latency: float
    transfer: float
    compute: float
    waiting: float


class Event(typing.NamedTuple):
    """What a rank or a message does. kind: "send", "recv", "copy", "reduce" or "transfer"."""

    kind: str
    rank: int
    peer: int
    step: int
    slice: int
    start: float
    end: float
    bytes: int


class Use(typing.NamedTuple):
    """From `time` on, a resource is used at this rate: bytes per second; processors: share and all."""

    resource: str
    time: float
    rate: int
    capacity: int


class Prediction(typing.NamedTuple):
    """Of one operation; times are in seconds.

    bound      for which the busiest link, memory or processor is needed by this plan alone
    path       its parts are `time`
    messages, bytes  of all ranks
    slices     into which the operation is cut
    simulated  ranks: equal ranks are simulated once
    events, uses     those asked for, else empty
    """

    time: float
    bound: float
    busiest: str
    path: Path
    messages: int
    bytes: int
    slices: int
    simulated: int
    events: typing.List[Event]
    uses: typing.List[Use]


def _seconds(picoseconds):
    return picoseconds / 1e12


def _prediction(p, events=(), uses=()):
    path = Path(*(_seconds(getattr(p.path, field)) for field in Path._fields))
    return Prediction(_seconds(p.time), _seconds(p.bound), p.busiest.decode(), path, p.messages, p.bytes, p.slices,
                      p.simulated, list(events), list(uses))


def _type_of(name, what, dtype):
    kind = lib.plait_dtype_find(_arrays.text(name, what, dtype))
    if kind < 0:
        raise ArgError(f'{name}: {what} is {dtype!r}; it must be a type of the library, such as "float32"')
    return kind


def _count(name, nbytes, dtype):
    """The type's number, and elements."""
    kind = _type_of(name, 'dtype', dtype)
    count, rest = divmod(operator.index(nbytes), lib.plait_dtype_size(kind))
    if rest or not 0 <= count < 1 << 60:
        raise ArgError(f'{name}: nbytes is {nbytes}; it must be a multiple of the bytes of {dtype}')
    return kind, count


def _shape(name, machine, coll, ranks, root, inplace):
    if not isinstance(machine, Machine):
        raise TypeError(f'{name}: machine is of type {type(machine).__name__}; it must be a plait.Machine')
    kind = lib.plait_coll_find(_arrays.text(name, 'coll', coll))
    if kind < 0:
        raise ArgError(f'{name}: coll is {coll!r}; it must be a collective, such as "allreduce"')
    numbers = [operator.index(machine.ranks if ranks is None else ranks), operator.index(root)]
    for what, value in zip(('ranks', 'root'), numbers):
        if not 0 <= value < 1 << 32:
            raise ArgError(f'{name}: {what} is {value}; it must be from 0 to 2**32 - 1')
    return Shape(coll=kind, nrank=numbers[0], root=numbers[1], inplace=bool(inplace))


def _places(name, place, nrank):
    if place is None:
        return None
    place = [operator.index(p) for p in place]
    if len(place) != nrank or not all(0 <= p < 1 << 32 for p in place):
        raise ArgError(f'{name}: place is {place}; it must be {nrank} places, one for each rank, from 0')
    return (ctypes.c_uint32 * nrank)(*place)


def _keeper(make, kept, raised):
    """A callback that keeps what it is told. Nothing may leave through the library, so exceptions are kept, too."""
    def keep(_, told):
        try:
            kept.append(make(told[0]))
        except BaseException as error:  # pylint: disable=broad-except
            raised.append(error)
    return keep


def simulate(machine: Machine, spec: str, coll: str = 'allreduce', ranks: typing.Optional[int] = None,
             nbytes: int = 4 << 20, *, root: int = 0, inplace: bool = False, dtype: str = 'float32',
             place: typing.Optional[typing.Sequence[int]] = None, events: bool = False,
             uses: bool = False) -> Prediction:
    """Predict one operation; include/plait/simulate.h is the manual.

    spec    algorithm, such as "ring" or "torus:4x8"
    coll    "allreduce", "reduce_scatter", "allgather", ...
    ranks   None: all for which the machine has room
    nbytes  of the vector, or of a block: the bytes of the elements that the collective's call counts
    place   each rank's place in the machine; None: rank r has place r
    events  True: keep what every rank and every message does, by its end
    uses    True: keep the use of links, memory and processors
    """
    shape = _shape('simulate', machine, coll, ranks, root, inplace)
    kind, count = _count('simulate', nbytes, dtype)
    heard, used, raised = [], [], []
    options, p = SimOptions(place=_places('simulate', place, shape.nrank)), PredictionStruct()
    if events:
        options.event = HearEvent(_keeper(
            lambda e: Event(SIM_KINDS[e.kind], e.rank, e.peer, e.step, e.slice, _seconds(e.start), _seconds(e.end),
                            e.bytes), heard, raised))
    if uses:
        names = machine.resources
        options.use = HearUse(_keeper(lambda u: Use(names[u.resource], _seconds(u.time), u.rate, u.capacity), used,
                                      raised))
    lib.plait_simulate(ctypes.byref(machine._struct), _arrays.text('simulate', 'spec', spec), ctypes.byref(shape),
                       kind, count, ctypes.byref(options), ctypes.byref(p))
    if raised:
        raise raised[0]
    return _prediction(p, heard, used)


# ---- Forecasts -------------------------------------------------------------------------------------


class Bucket(typing.NamedTuple):
    """Gradients that travel together: ntensor from the first; times are in seconds from the step's start."""

    first: int
    ntensor: int
    bytes: int
    ready: float
    begin: float
    end: float
    algorithm: str


class StepTime(typing.NamedTuple):
    """Of a step of training, in seconds. exposed: time - compute. buckets: in the order of their collectives."""

    time: float
    compute: float
    communication: float
    exposed: float
    bytes: int
    buckets: typing.List[Bucket]


class Forecast:
    """The fastest algorithm at a size, and steps of training; include/plait/forecast.h is the manual.

        f = plait.Forecast(machine, ranks=256, inplace=True)
        algorithm, prediction = f.fastest(64 << 20)
        ready = plait.training_ready(forward, backward, 50e12)                       in forward order
        f.step(sizes[::-1], ready[::-1], compute=ready[0]).exposed                   as a fusion registers gradients
        f.cuts(sizes[::-1], ready[::-1])                                             for comm.fusion(layout=...)

    algorithms  candidates; None: all that fit
    Each algorithm is simulated once at each size. One thread at a time uses a forecast.
    """

    def __init__(self, machine: Machine, coll: str = 'allreduce', ranks: typing.Optional[int] = None, *, root: int = 0,
                 inplace: bool = False, place: typing.Optional[typing.Sequence[int]] = None,
                 algorithms: typing.Optional[typing.Sequence[str]] = None):
        shape = _shape('Forecast', machine, coll, ranks, root, inplace)
        options = ForecastOptions(machine=ctypes.pointer(machine._struct), shape=shape,
                                  place=_places('Forecast', place, shape.nrank))
        if algorithms is not None:
            names = [_arrays.text('Forecast', 'algorithms', a) for a in algorithms]
            options.algorithms = (ctypes.c_char_p * (len(names) + 1))(*names)
        self._free, self._handle = lib.plait_forecast_destroy, ctypes.POINTER(ForecastHandle)()
        lib.plait_forecast_create(ctypes.byref(options), ctypes.byref(self._handle))

    def __del__(self):
        if getattr(self, '_handle', None):
            self._free(self._handle)

    @property
    def algorithms(self) -> typing.List[str]:
        """The candidates."""
        names = []
        while (name := lib.plait_forecast_algorithm(self._handle, len(names))) is not None:
            names.append(name.decode())
        return names

    def time(self, algorithm: str, nbytes: int, dtype: str = 'float32') -> Prediction:
        """A candidate's prediction."""
        p, names = PredictionStruct(), self.algorithms
        if algorithm not in names:
            raise ArgError(f'time: algorithm is {algorithm!r}; it must be one of {", ".join(names)}')
        lib.plait_forecast_time(self._handle, names.index(algorithm), *_count('time', nbytes, dtype), ctypes.byref(p))
        return _prediction(p)

    def fastest(self, nbytes: int, dtype: str = 'float32') -> typing.Tuple[str, Prediction]:
        """The fastest candidate's name and prediction; of equally fast ones the first."""
        p, name = PredictionStruct(), ctypes.c_char_p()
        lib.plait_forecast_fastest(self._handle, *_count('fastest', nbytes, dtype), ctypes.byref(name), ctypes.byref(p))
        return name.value.decode(), _prediction(p)

    def step(self, sizes: typing.Sequence[int], ready: typing.Sequence[float], compute: float, *,
             layout: typing.Union[int, typing.List[int], str] = 4 << 20, dtype: str = 'float32',
             payload: typing.Optional[str] = None) -> StepTime:
        """The time of a step of training.

        sizes    elements of each gradient, in the order of their registration: the last layer's first
        ready    seconds from the step's start until each is ready
        compute  seconds of the forward and the backward pass
        layout   as in Comm.fusion(): bytes of a bucket, a list of cuts, or "cubic"
        payload  "float16" or "bfloat16"; None: as the gradients
        """
        n, training = len(sizes), _training('step', sizes, ready, compute, dtype, payload)
        training.layout, _cuts = layout_of('step', layout)
        buckets, s = (TrainingBucket * max(n, 1))(), StepTimeStruct()
        lib.plait_forecast_step(self._handle, ctypes.byref(training), buckets, ctypes.byref(s))
        rows = [Bucket(b.first, b.ntensor, b.bytes, _seconds(b.ready), _seconds(b.begin), _seconds(b.end),
                       b.algorithm.decode()) for b in buckets[:s.nbucket]]
        return StepTime(_seconds(s.time), _seconds(s.compute), _seconds(s.communication), _seconds(s.exposed), s.bytes,
                        rows)

    def cuts(self, sizes: typing.Sequence[int], ready: typing.Sequence[float], *, dtype: str = 'float32',
             payload: typing.Optional[str] = None) -> typing.List[int]:
        """The layout with which the last collective ends as early as possible, for Comm.fusion(). As step(); gradients
        that are in forward order have no cuts, as all wait for the first."""
        training = _training('cuts', sizes, ready, max(ready, default=0), dtype, payload)
        cuts, n = (ctypes.c_uint32 * max(len(sizes), 1))(), ctypes.c_uint32()
        lib.plait_forecast_cuts(self._handle, ctypes.byref(training), cuts, ctypes.byref(n))
        return cuts[:n.value]


def _training(call, sizes, ready, compute, dtype, payload):
    if len(sizes) != len(ready):
        raise ArgError(f'{call}: there are {len(sizes)} sizes, but {len(ready)} ready times')
    kind, n = _type_of(call, 'dtype', dtype), len(sizes)
    tensors, times = (Tensor * max(n, 1))(), (ctypes.c_uint64 * max(n, 1))()
    for k, size in enumerate(sizes):
        tensors[k].name, tensors[k].count, tensors[k].type = b'gradient', operator.index(size), kind
        times[k] = _picoseconds(call, 'ready', ready[k])
    return Training(tensors=tensors, ready=times, ntensor=n, compute=_picoseconds(call, 'compute', compute),
                    payload=NO_TYPE if payload is None else _type_of(call, 'payload', payload))


def _picoseconds(call, what, seconds):
    if not 0 <= seconds < 9e6:
        raise ArgError(f'{call}: {what} is {seconds}; it must be seconds from 0 to 9e6')
    return round(seconds * 1e12)


def training_ready(forward: typing.Sequence[int], backward: typing.Sequence[int],
                   rate: float) -> typing.List[float]:
    """Seconds until each gradient is ready, the first one last. FLOPs of both passes in each tensor's layer, in forward
    order; FLOPs per second. For Forecast turn it round."""
    n = len(forward)
    if len(backward) != n or not 0 <= rate < 1 << 63:
        raise ArgError(f'training_ready: {n} and {len(backward)} tensors, rate {rate}; they must be as many, and the '
                       'rate FLOPs per second')
    ready, numbers = (ctypes.c_uint64 * max(n, 1))(), ctypes.c_uint64 * max(n, 1)
    lib.plait_training_ready(numbers(*forward), numbers(*backward), n, int(rate), ready)
    return [_seconds(t) for t in ready[:n]]
