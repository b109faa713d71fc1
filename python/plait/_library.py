# SPDX-License-Identifier: BSD-3-Clause
"""The C library: its location, structs and functions.

Everything that must agree with the public headers is here; tests/python_headers_test.py compares it with them.
"""
import ctypes
import os
from ctypes import CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_int, c_size_t, c_ubyte, \
    c_uint, c_uint32, c_uint64, c_void_p

VERSION = '0.1.0'  # of this package
SONAME = 'libplait.so.0'
ROUNDS = ('default', 'once', 'hop')  # enum plait_round
SCALE_WHEN = ('now', 'late')  # enum plait_scale_when
NO_COLOR = -1
OPTIM_METHODS = ('sgd', 'lars')  # enum plait_optim_method
OPTIM_PLAIN = 3

DECAY_RULES = ('none', 'polynomial', 'steps', 'cosine')  # enum plait_decay_rule
SIM_KINDS = ('send', 'recv', 'copy', 'reduce', 'transfer')  # enum plait_sim_kind

Combine = CFUNCTYPE(None, c_void_p, c_void_p, c_size_t, c_int, c_void_p)
Interrupted = CFUNCTYPE(c_int)


class CommHandle(Structure):
    """`struct plait_comm`, an incomplete type, like the next three."""


class RequestHandle(Structure):
    pass


class StreamHandle(Structure):
    pass


class FusionHandle(Structure):
    pass


class OptimHandle(Structure):
    pass


class ElasticHandle(Structure):
    pass


class ForecastHandle(Structure):
    pass


OPAQUE = {'plait_comm': CommHandle, 'plait_request': RequestHandle, 'plait_stream': StreamHandle,
          'plait_fusion': FusionHandle, 'plait_optim': OptimHandle, 'plait_elastic': ElasticHandle,
          'plait_forecast': ForecastHandle}


class UniqueId(Structure):
    _fields_ = [('bytes', c_ubyte * 128)]


class UserOp(Structure):
    _fields_ = [('size', c_size_t), ('combine', Combine), ('context', c_void_p), ('commutative', c_int)]


class Call(Structure):
    _fields_ = [('size', c_size_t), ('algorithm', c_char_p), ('slice', c_size_t), ('round', c_int),
                ('reproducible', c_int), ('deadline', c_double), ('scale', c_void_p), ('scale_when', c_int),
                ('user', POINTER(UserOp)), ('request', POINTER(POINTER(RequestHandle))), ('persistent', c_int),
                ('stream', POINTER(StreamHandle)), ('mark', c_uint32)]


class CommOptions(Structure):
    _fields_ = [('size', c_size_t), ('nrank', c_uint32), ('rank', c_uint32), ('id', POINTER(UniqueId)),
                ('name', c_char_p), ('timeout', c_double), ('deadline', c_double), ('warn', c_double),
                ('reproducible', c_int), ('round', c_int), ('node', POINTER(c_uint32)), ('algorithms', c_void_p),
                ('progress', c_int), ('background', c_int)]


class CommStats(Structure):
    _fields_ = [(name, c_uint64) for name in (
        'operations', 'messages', 'bytes_sent', 'bytes_staged', 'bytes_copied', 'bytes_reduced', 'allocations',
        'yields', 'sleeps', 'wakes', 'plan_hash')]


class CommMemory(Structure):
    _fields_ = [('control', c_size_t), ('staging', c_size_t), ('device', c_size_t)]


class PeerInfo(Structure):
    _fields_ = [('transport', c_char * 16), ('device', c_char * 112), ('node', c_uint32), ('gpu', c_char * 16),
                ('shares', c_char * 16)]


class LaunchStruct(Structure):
    _fields_ = [('launcher', c_char * 16), ('rank', c_uint32), ('nrank', c_uint32), ('local_rank', c_uint32),
                ('local_nrank', c_uint32), ('id', UniqueId)]


class CommCount(Structure):
    _fields_ = [('coll', c_int), ('algorithm', c_char * 64), ('operations', c_uint64), ('bytes', c_uint64)]


class Tensor(Structure):
    _fields_ = [('name', c_char_p), ('count', c_size_t), ('type', c_int), ('data', c_void_p)]


class Layout(Structure):
    _fields_ = [('rule', c_int), ('threshold', c_size_t), ('cuts', POINTER(c_uint32)), ('ncut', c_uint32)]


class FusionOptions(Structure):
    _fields_ = [('size', c_size_t), ('name', c_char_p), ('tensors', POINTER(Tensor)), ('ntensor', c_uint32),
                ('layout', Layout), ('op', c_int), ('payload', c_int), ('round', c_int), ('sharded', c_int),
                ('weights', c_int), ('check', c_int), ('reproducible', c_int), ('algorithm', c_char_p),
                ('progress', c_int), ('trace', c_int),
                ('stream', POINTER(StreamHandle))]


class FusionResult(Structure):
    _fields_ = [('finite', c_int)]


class OptimPart(Structure):
    _fields_ = [('tensor', c_uint32), ('count', c_size_t), ('gradient', c_void_p), ('type', c_int),
                ('master', c_void_p), ('copy', c_void_p), ('copy_type', c_int), ('flags', c_uint)]


class LossScaleStruct(Structure):
    _fields_ = [('scale', c_double), ('growth', c_double), ('backoff', c_double), ('least', c_double),
                ('most', c_double), ('interval', c_uint32), ('good', c_uint32), ('skipped', c_uint64)]


class OptimOptions(Structure):
    _fields_ = [('size', c_size_t), ('parts', POINTER(OptimPart)), ('npart', c_uint32), ('ntensor', c_uint32),
                ('method', c_int), ('momentum', c_double), ('nesterov', c_int), ('lr_in_momentum', c_int),
                ('decay', c_double), ('eta', c_double), ('eps', c_double), ('norm_decay', c_double), ('check', c_int),
                ('comm', POINTER(CommHandle)), ('stream', POINTER(StreamHandle)), ('scale', POINTER(LossScaleStruct))]


class OptimStep(Structure):
    _fields_ = [('size', c_size_t), ('lr', c_double), ('factor', c_double), ('decay', c_double), ('squares', c_void_p)]


class OptimResult(Structure):
    _fields_ = [('finite', c_int), ('norm', c_double)]


class ScheduleStruct(Structure):
    _fields_ = [('size', c_size_t), ('base', c_double), ('warmup', c_double), ('start', c_double), ('rule', c_int),
                ('steps', c_double), ('power', c_double), ('end', c_double), ('milestones', c_void_p),
                ('nmilestone', c_uint32), ('gamma', c_double)]


class ElasticOptions(Structure):
    _fields_ = [('size', c_size_t), ('name', c_char_p), ('mode', c_int), ('weights', c_void_p), ('count', c_size_t),
                ('period', c_uint32), ('beta', c_double), ('rho', c_double), ('lr', c_double), ('momentum', c_double),
                ('payload', c_int), ('nserver', c_uint32), ('threads', c_uint32),
                ('reproducible', c_int), ('algorithm', c_char_p)]


class ElasticCounts(Structure):
    _fields_ = [('workers', c_uint32), ('left', c_uint32), ('died', c_uint32), ('exchanges', c_uint64),
                ('pull', c_double), ('behind', c_uint64), ('behind_max', c_uint64), ('forces', c_double),
                ('movement', c_double), ('slots', c_size_t), ('staged', c_uint64)]


class Shape(Structure):
    _fields_ = [('coll', c_int), ('nrank', c_uint32), ('root', c_uint32), ('inplace', c_bool),
                ('node', POINTER(c_uint32)), ('nlevel', c_uint32), ('level', POINTER(c_uint32)), ('nparam', c_uint32),
                ('param', c_uint32 * 8), ('vform', c_bool)]


class Level(Structure):
    _fields_ = [('name', c_char * 24), ('children', c_uint32), ('links', c_uint32), ('bandwidth', c_uint64),
                ('latency', c_uint64), ('overhead', c_uint64), ('eager', c_size_t), ('processors', c_uint32),
                ('memory', c_uint64), ('about', c_char * 384)]


class Slow(Structure):
    _fields_ = [('rank', c_bool), ('level', c_uint32), ('child', c_uint32), ('percent', c_uint32)]


class MachineStruct(Structure):
    _fields_ = [('name', c_char * 96), ('nlevel', c_uint32), ('level', Level * 8), ('copy', c_uint64),
                ('reduce', c_uint64), ('cache', c_size_t), ('nslow', c_uint32), ('slow', Slow * 16),
                ('about', c_char * 384)]


class PathStruct(Structure):
    _fields_ = [(name, c_uint64) for name in ('latency', 'transfer', 'compute', 'waiting')]


class PredictionStruct(Structure):
    _fields_ = [('time', c_uint64), ('bound', c_uint64), ('busiest', c_char * 64), ('busiest_resource', c_uint32),
                ('path', PathStruct), ('messages', c_uint64), ('bytes', c_uint64), ('slices', c_uint64),
                ('simulated', c_uint32)]


class SimEvent(Structure):
    _fields_ = [('kind', c_int), ('rank', c_uint32), ('peer', c_uint32), ('step', c_uint32), ('slice', c_uint64),
                ('start', c_uint64), ('end', c_uint64), ('bytes', c_uint64)]


class SimUse(Structure):
    _fields_ = [('resource', c_uint32), ('time', c_uint64), ('rate', c_uint64), ('capacity', c_uint64)]


HearEvent = CFUNCTYPE(None, c_void_p, POINTER(SimEvent))
HearUse = CFUNCTYPE(None, c_void_p, POINTER(SimUse))


class SimOptions(Structure):
    _fields_ = [('place', POINTER(c_uint32)), ('event', HearEvent), ('use', HearUse), ('arg', c_void_p),
                ('algorithms', c_void_p)]


class ForecastOptions(Structure):
    _fields_ = [('machine', POINTER(MachineStruct)), ('shape', Shape), ('place', POINTER(c_uint32)),
                ('algorithms', POINTER(c_char_p))]


class Training(Structure):
    _fields_ = [('tensors', POINTER(Tensor)), ('ready', POINTER(c_uint64)), ('ntensor', c_uint32),
                ('compute', c_uint64), ('layout', Layout), ('payload', c_int)]


class TrainingBucket(Structure):
    _fields_ = [('type', c_int), ('first', c_uint32), ('ntensor', c_uint32), ('bytes', c_size_t), ('ready', c_uint64),
                ('begin', c_uint64), ('end', c_uint64), ('algorithm', c_char * 64)]


class StepTimeStruct(Structure):
    _fields_ = [('time', c_uint64), ('compute', c_uint64), ('communication', c_uint64), ('exposed', c_uint64),
                ('nbucket', c_uint32), ('bytes', c_size_t)]


STRUCTS = {'plait_unique_id': UniqueId, 'plait_user_op': UserOp, 'plait_call': Call, 'plait_comm_options': CommOptions,
           'plait_launch': LaunchStruct, 'plait_peer_info': PeerInfo, 'plait_comm_stats': CommStats,
           'plait_comm_memory': CommMemory, 'plait_comm_count': CommCount, 'plait_tensor': Tensor,
           'plait_layout': Layout,
           'plait_fusion_options': FusionOptions, 'plait_fusion_result': FusionResult,
           'plait_optim_part': OptimPart, 'plait_optim_options': OptimOptions, 'plait_optim_step': OptimStep,
           'plait_optim_result': OptimResult, 'plait_loss_scale': LossScaleStruct, 'plait_schedule': ScheduleStruct,
           'plait_elastic_options': ElasticOptions, 'plait_elastic_counts': ElasticCounts,
           'plait_shape': Shape, 'plait_level': Level, 'plait_slow': Slow, 'plait_machine': MachineStruct,
           'plait_path': PathStruct, 'plait_prediction': PredictionStruct, 'plait_sim_event': SimEvent,
           'plait_sim_use': SimUse, 'plait_sim_options': SimOptions, 'plait_forecast_options': ForecastOptions,
           'plait_training': Training, 'plait_training_bucket': TrainingBucket, 'plait_step_time': StepTimeStruct}


class Status(c_int):
    """The result of a function that can fail, which _errors.py turns into exceptions."""


_CALL = POINTER(Call)
_IN, _OUT, _COUNTS = [c_void_p] * 3
_COMM, _REQUEST = POINTER(CommHandle), POINTER(RequestHandle)
_FUSION, _ELASTIC = POINTER(FusionHandle), POINTER(ElasticHandle)
_MACHINE, _FORECAST, _PREDICTION = POINTER(MachineStruct), POINTER(ForecastHandle), POINTER(PredictionStruct)
_TYPE = _OP = _COLL = c_int

# name: result, parameters
FUNCTIONS = {
    'plait_version': (c_char_p, []),
    'plait_features': (c_char_p, []),
    'plait_status_name': (c_char_p, [c_int]),
    'plait_status_text': (c_char_p, [c_int]),
    'plait_last_error': (c_char_p, []),
    'plait_dtype_size': (c_size_t, [_TYPE]),
    'plait_dtype_name': (c_char_p, [_TYPE]),
    'plait_dtype_find': (c_int, [c_char_p]),
    'plait_op_name': (c_char_p, [_OP]),
    'plait_op_find': (c_int, [c_char_p]),
    'plait_coll_name': (c_char_p, [_COLL]),
    'plait_coll_find': (c_int, [c_char_p]),
    'plait_mem_alloc': (Status, [c_size_t, POINTER(c_void_p)]),
    'plait_mem_free': (Status, [c_void_p]),
    'plait_mem_share': (Status, [c_void_p, POINTER(c_void_p)]),
    'plait_unique_id_create': (Status, [POINTER(UniqueId)]),
    'plait_unique_id_create_tcp': (Status, [c_char_p, POINTER(UniqueId)]),
    'plait_launch_find': (Status, [POINTER(LaunchStruct)]),
    'plait_comm_create': (Status, [POINTER(CommOptions), POINTER(_COMM)]),
    'plait_comm_destroy': (Status, [_COMM]),
    'plait_comm_abort': (Status, [_COMM, c_char_p]),
    'plait_interrupt_set': (None, [Interrupted]),
    'plait_comm_status': (Status, [_COMM]),
    'plait_comm_finalize': (Status, [_COMM]),
    'plait_comm_revoke': (Status, [_COMM]),
    'plait_comm_suspend': (Status, [_COMM]),
    'plait_comm_resume': (Status, [_COMM]),
    'plait_comm_split': (Status, [_COMM, c_int, c_int, c_char_p, POINTER(_COMM)]),
    'plait_comm_duplicate': (Status, [_COMM, c_char_p, POINTER(_COMM)]),
    'plait_comm_shrink': (Status, [_COMM, POINTER(c_uint32), c_uint32, c_int, c_char_p, POINTER(_COMM)]),
    'plait_comm_name': (c_char_p, [_COMM]),
    'plait_comm_rank': (c_uint32, [_COMM]),
    'plait_comm_nrank': (c_uint32, [_COMM]),
    'plait_comm_stats': (None, [_COMM, POINTER(CommStats)]),
    'plait_comm_count': (Status, [_COMM, c_size_t, POINTER(CommCount)]),
    'plait_comm_waited': (c_double, [_COMM, c_uint32]),
    'plait_comm_peer': (Status, [_COMM, c_uint32, POINTER(PeerInfo)]),
    'plait_comm_memory': (None, [_COMM, POINTER(CommMemory)]),
    'plait_test': (Status, [POINTER(_REQUEST), POINTER(c_int)]),
    'plait_wait': (Status, [POINTER(_REQUEST)]),
    'plait_wait_any': (Status, [POINTER(_REQUEST), c_size_t, POINTER(c_size_t)]),
    'plait_start': (Status, [_REQUEST]),
    'plait_run_again': (Status, [_REQUEST]),
    'plait_request_free': (Status, [POINTER(_REQUEST)]),
    'plait_group_start': (Status, []),
    'plait_group_end': (Status, []),
    'plait_send': (Status, [_COMM, _IN, c_size_t, _TYPE, c_uint32, _CALL]),
    'plait_recv': (Status, [_COMM, _OUT, c_size_t, _TYPE, c_uint32, _CALL]),
    'plait_allreduce': (Status, [_COMM, _IN, _OUT, c_size_t, _TYPE, _OP, _CALL]),
    'plait_reduce_scatter': (Status, [_COMM, _IN, _OUT, c_size_t, _TYPE, _OP, _CALL]),
    'plait_allgather': (Status, [_COMM, _IN, _OUT, c_size_t, _TYPE, _CALL]),
    'plait_broadcast': (Status, [_COMM, _IN, _OUT, c_size_t, _TYPE, c_uint32, _CALL]),
    'plait_reduce': (Status, [_COMM, _IN, _OUT, c_size_t, _TYPE, _OP, c_uint32, _CALL]),
    'plait_gather': (Status, [_COMM, _IN, _OUT, c_size_t, _TYPE, c_uint32, _CALL]),
    'plait_scatter': (Status, [_COMM, _IN, _OUT, c_size_t, _TYPE, c_uint32, _CALL]),
    'plait_alltoall': (Status, [_COMM, _IN, _OUT, c_size_t, _TYPE, _CALL]),
    'plait_reduce_scatterv': (Status, [_COMM, _IN, _OUT, _COUNTS, _COUNTS, _TYPE, _OP, _CALL]),
    'plait_allgatherv': (Status, [_COMM, _IN, _OUT, _COUNTS, _COUNTS, _TYPE, _CALL]),
    'plait_gatherv': (Status, [_COMM, _IN, c_size_t, _OUT, _COUNTS, _COUNTS, _TYPE, c_uint32, _CALL]),
    'plait_scatterv': (Status, [_COMM, _IN, _COUNTS, _COUNTS, _OUT, c_size_t, _TYPE, c_uint32, _CALL]),
    'plait_alltoallv': (Status, [_COMM, _IN, _COUNTS, _COUNTS, _OUT, _COUNTS, _COUNTS, _TYPE, _CALL]),
    'plait_barrier': (Status, [_COMM, _CALL]),
    'plait_stream_create_cuda_on': (Status, [c_int, c_void_p, POINTER(POINTER(StreamHandle))]),
    'plait_stream_destroy': (Status, [POINTER(StreamHandle)]),
    'plait_fusion_create': (Status, [_COMM, POINTER(FusionOptions), POINTER(_FUSION)]),
    'plait_fusion_destroy': (Status, [_FUSION]),
    'plait_fusion_set_scale': (Status, [_FUSION, c_double, c_double]),
    'plait_fusion_data': (c_void_p, [_FUSION, c_uint32]),
    'plait_fusion_ready': (Status, [_FUSION, c_uint32]),
    'plait_fusion_skip': (Status, [_FUSION, c_uint32]),
    'plait_fusion_wait': (Status, [_FUSION, c_uint32]),
    'plait_fusion_wait_all': (Status, [_FUSION, POINTER(FusionResult)]),
    'plait_fusion_comm': (_COMM, [_FUSION]),
    'plait_fusion_trace': (Status, [_FUSION, c_char_p]),
    'plait_optim_create': (Status, [POINTER(OptimOptions), POINTER(POINTER(OptimHandle))]),
    'plait_optim_destroy': (None, [POINTER(OptimHandle)]),
    'plait_optim_momentum': (c_void_p, [POINTER(OptimHandle), c_uint32]),
    'plait_optim_step': (Status, [POINTER(OptimHandle), POINTER(OptimStep), POINTER(OptimResult)]),
    'plait_loss_scale_update': (Status, [POINTER(LossScaleStruct), c_int]),
    'plait_elastic_find': (c_int, [c_char_p]),
    'plait_elastic_create': (Status, [_COMM, POINTER(ElasticOptions), POINTER(_ELASTIC)]),
    'plait_elastic_destroy': (Status, [_ELASTIC]),
    'plait_elastic_start': (Status, [_ELASTIC]),
    'plait_elastic_finish': (Status, [_ELASTIC]),
    'plait_elastic_exchange': (Status, [_ELASTIC]),
    'plait_elastic_step': (Status, [_ELASTIC, c_void_p]),
    'plait_elastic_set_lr': (Status, [_ELASTIC, c_double]),
    'plait_elastic_serve': (Status, [_ELASTIC]),
    'plait_elastic_centre': (Status, [_ELASTIC, c_void_p]),
    'plait_elastic_counts': (None, [_ELASTIC, POINTER(ElasticCounts)]),
    'plait_schedule_at': (c_double, [POINTER(ScheduleStruct), c_double]),
    'plait_machine_check': (Status, [_MACHINE]),
    'plait_machine_change': (Status, [_MACHINE, c_char_p]),
    'plait_machine_load': (Status, [c_char_p, _MACHINE]),
    'plait_machine_save': (Status, [_MACHINE, c_char_p]),
    'plait_machine_ranks': (c_uint64, [_MACHINE]),
    'plait_machine_resources': (c_uint32, [_MACHINE]),
    'plait_machine_resource': (None, [_MACHINE, c_uint32, POINTER(c_char), c_size_t]),
    'plait_simulate': (Status, [_MACHINE, c_char_p, POINTER(Shape), _TYPE, c_size_t, POINTER(SimOptions),
                                _PREDICTION]),
    'plait_forecast_create': (Status, [POINTER(ForecastOptions), POINTER(_FORECAST)]),
    'plait_forecast_destroy': (None, [_FORECAST]),
    'plait_forecast_algorithm': (c_char_p, [_FORECAST, c_uint32]),
    'plait_forecast_time': (Status, [_FORECAST, c_uint32, _TYPE, c_size_t, _PREDICTION]),
    'plait_forecast_fastest': (Status, [_FORECAST, _TYPE, c_size_t, POINTER(c_char_p), _PREDICTION]),
    'plait_forecast_cuts': (Status, [_FORECAST, POINTER(Training), POINTER(c_uint32), POINTER(c_uint32)]),
    'plait_forecast_step': (Status, [_FORECAST, POINTER(Training), POINTER(TrainingBucket), POINTER(StepTimeStruct)]),
    'plait_training_ready': (Status, [POINTER(c_uint64), POINTER(c_uint64), c_uint32, c_uint64, POINTER(c_uint64)]),
}


_FOLDER = os.path.dirname(os.path.abspath(__file__))


def _path_of(function):
    """The file that has this function."""
    address = ctypes.cast(function, c_void_p).value
    with open('/proc/self/maps', encoding='utf-8', errors='replace') as maps:
        for line in maps:
            start, end = (int(number, 16) for number in line.split()[0].split('-'))
            if start <= address < end:
                return line.split(maxsplit=5)[5].rstrip()
    return SONAME


def _check_version(library):
    """Structs and functions are those of a release: while the first number is 0, of its second one."""
    found = library.plait_version().decode()
    if found.split('.')[:2] != VERSION.split('.')[:2]:
        raise ImportError(f'this package is Plait {VERSION} ({_FOLDER}), but the library is Plait {found} '
                          f'({_path_of(library.plait_version)}); install both from one release'
                          + (', or unset PLAIT_LIBRARY' if 'PLAIT_LIBRARY' in os.environ else ''))


def _load():
    """PLAIT_LIBRARY; else the library inside this package, as wheels have it; else the one that the loader finds."""
    path = os.environ.get('PLAIT_LIBRARY')
    own = os.path.join(_FOLDER, '_prefix', 'lib', SONAME)
    try:
        library = ctypes.CDLL(path or (own if os.path.exists(own) else SONAME))
    except OSError as error:
        if path:
            raise ImportError(f'PLAIT_LIBRARY={path!r} cannot be loaded: {error}; '
                              f'set it to the path of {SONAME}') from None
        raise ImportError(f'{SONAME} cannot be loaded: {error}; set PLAIT_LIBRARY to its path or LD_LIBRARY_PATH to '
                          'its folder, or install it where the loader looks and run ldconfig') from None
    for name, (result, parameters) in FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ImportError(f'{path or SONAME} has no {name}(): it is not a Plait library, or one of another '
                              'version than this package') from None
        function.restype, function.argtypes = (c_int if result is Status else result), parameters
        if name == 'plait_version':  # the first: functions may be missing in another version
            _check_version(library)
    return library


lib = _load()
