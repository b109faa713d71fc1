#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The Python package says of the library what its headers say. Usage: python_headers_test.py HEADERS ..."""
import ctypes
import re
import subprocess
import sys

import headers
import plait
import sentences
from plait import _library

folders = sys.argv[1:]
declared = {f.name: f for f in headers.functions(folders)}

PLAIN = {'size_t': ctypes.c_size_t, 'uint32_t': ctypes.c_uint32, 'uint64_t': ctypes.c_uint64, 'int': ctypes.c_int,
         'unsigned': ctypes.c_uint, 'bool': ctypes.c_bool, 'char': ctypes.c_char, 'unsigned char': ctypes.c_ubyte,
         'double': ctypes.c_double, 'const char*': ctypes.c_char_p, 'void': None,
         'const char**': ctypes.POINTER(ctypes.c_char_p), 'const char*const*': ctypes.POINTER(ctypes.c_char_p)}


def fits(kind, c):
    """Is this ctypes type what C calls `c`?"""
    if c.startswith('enum '):
        return kind is ctypes.c_int
    if c.endswith(']'):
        base, size = c[:-1].split('[')
        return issubclass(kind, ctypes.Array) and kind._length_ == int(size) and fits(kind._type_, base)
    if c in PLAIN:
        return kind is PLAIN[c]
    if c.startswith('struct ') and not c.endswith('*'):
        return kind is _library.STRUCTS[c.replace('struct ', '')]
    if c == '(*)':
        return kind in (_library.Combine, _library.HearEvent, _library.HearUse)
    if '(*' in c:
        return c == 'int (*interrupted)(void)' and kind is _library.Interrupted
    assert c.endswith('*'), c
    pointed = re.sub(r'^const ', '', c[:-1])
    if kind is ctypes.c_void_p:  # arrays
        return pointed in ('void', 'size_t', 'float', 'double') or 'plait_alg' in pointed
    return kind is ctypes.POINTER(target(pointed))


def target(c):
    """What a pointer in C points to, of those that are not to arrays."""
    if c == 'void*':
        return ctypes.c_void_p
    if c.endswith('*'):
        return ctypes.POINTER(target(c[:-1]))
    return PLAIN.get(c) or {**_library.STRUCTS, **_library.OPAQUE}[c.replace('struct ', '')]


OTHER_NAMES = {'plait_comm_status': 'ready', 'plait_fusion_create': 'fusion', 'plait_elastic_create': 'elastic'}
ONLY_IN_C = {'plait_comm_choose', 'plait_comm_copy'}


def every_function_of_a_comm_has_a_method():
    functions = [f.name for f in declared.values()
                 if re.match(r'(const )?struct plait_comm\*comm$', (f.parameters or [''])[0])]
    assert len(functions) >= 30, functions
    methods = {OTHER_NAMES.get(name) or re.sub('^plait_(comm_)?', '', name) for name in functions
               if name not in ONLY_IN_C}
    with plait.Comm.create(1, 0) as comm:
        missing = [name for name in methods if not hasattr(comm, name)]
    assert not missing, missing


def every_handle_is_opaque():
    for name in _library.OPAQUE:
        assert re.search(rf'struct {name};', headers.code(folders)), f'no struct {name}'
        assert not re.search(rf'struct {name}\s*{{', headers.code(folders)), f'struct {name} is not opaque'


def functions_take_what_the_headers_say():
    for name, (result, parameters) in _library.FUNCTIONS.items():
        function = declared[name]
        fails = function.returns == 'enum plait_status'
        good = result is _library.Status if fails else fits(result, function.returns)
        assert good, f'{name} returns {function.returns}, not {result}'
        types = [re.sub(r'\w+$', '', p).strip() for p in function.parameters]
        assert len(types) == len(parameters), f'{name} has {len(types)} parameters: {function.parameters}'
        for c, kind in zip(types, parameters):
            assert fits(kind, c), f'{name}: a parameter is {c}, not {kind}'


def structs_have_the_fields_of_the_headers():
    for name, struct in _library.STRUCTS.items():
        expected = headers.fields(folders, name)
        assert [f for f, _ in struct._fields_] == [f for _, f in expected], \
            f'{name} has the fields {[f for _, f in expected]}'
        for (field, kind), (c, _) in zip(struct._fields_, expected):
            assert fits(kind, c), f'{name}.{field} is {c}, not {kind}'


def structs_have_the_sizes_of_the_library():
    """What differs is PLAIT_ERR_ARG, as the structs carry their size."""
    with plait.Comm.create(1, 0) as comm:
        comm.barrier()


def exceptions_are_the_list_of_statuses():
    rows = headers.rows(folders, 'PLAIT_STATUS_LIST')
    expected = {name: int(value) for name, value, _ in rows if int(value) < 0}
    assert {name for name, value, _ in rows if int(value) >= 0} == {'PLAIT_OK', 'PLAIT_IN_PROGRESS'}, rows
    classes = [getattr(plait, name) for name in plait.__all__ if name.endswith('Error') and name != 'Error']
    assert {c.name: c.status for c in classes} == expected
    for name in expected:
        assert issubclass(getattr(plait, name[len('PLAIT_ERR_'):].title() + 'Error'), plait.Error), name


def names_of_rounding_are_the_enum():
    names = headers.enumerators(folders, 'plait_round')
    assert names == ['PLAIT_ROUND_' + name.upper() for name in _library.ROUNDS], names
    assert headers.enumerators(folders, 'plait_scale_when') == ['PLAIT_SCALE_' + n.upper() for n in _library.SCALE_WHEN]
    assert headers.enumerators(folders, 'plait_sim_kind') == \
        ['PLAIT_SIM_' + name.upper() for name in _library.SIM_KINDS + ('nkind',)]


def names_of_methods_and_rules_are_the_enums():
    assert headers.enumerators(folders, 'plait_optim_method') == \
        ['PLAIT_OPTIM_' + name.upper() for name in _library.OPTIM_METHODS]
    assert headers.enumerators(folders, 'plait_decay_rule') == \
        ['PLAIT_DECAY_' + name.upper() for name in _library.DECAY_RULES]

    assert '#define PLAIT_OPTIM_PLAIN (PLAIT_OPTIM_NO_DECAY | PLAIT_OPTIM_NO_TRUST)' in \
        ' '.join(headers.code(folders).split()) and _library.OPTIM_PLAIN == 1 | 2


def no_color_is_the_header_s():
    assert f'#define PLAIT_NO_COLOR ({_library.NO_COLOR})' in headers.code(folders)


def versions_and_soname_are_the_library_s():
    assert plait.__version__ == plait.version(), (plait.__version__, plait.version())
    dynamic = subprocess.run(['readelf', '-d', _library.lib._name], check=True, capture_output=True, text=True).stdout
    assert f'[{_library.SONAME}]' in dynamic, dynamic


sentences.run([
    every_function_of_a_comm_has_a_method, every_handle_is_opaque, functions_take_what_the_headers_say,
    structs_have_the_fields_of_the_headers, no_color_is_the_header_s, structs_have_the_sizes_of_the_library, exceptions_are_the_list_of_statuses, names_of_rounding_are_the_enum,
    names_of_methods_and_rules_are_the_enums,
    versions_and_soname_are_the_library_s,
])
