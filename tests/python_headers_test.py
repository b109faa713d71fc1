#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The Python package says of the library what its headers say. Usage: python_headers_test.py PYPROJECT HEADERS ..."""
import ctypes
import re
import subprocess
import sys

import headers
import plait
import sentences
from plait import _library

pyproject, *folders = sys.argv[1:]
declared = {f.name: f for f in headers.functions(folders)}

PLAIN = {'size_t': ctypes.c_size_t, 'uint32_t': ctypes.c_uint32, 'uint64_t': ctypes.c_uint64, 'int': ctypes.c_int,
         'double': ctypes.c_double, 'const char*': ctypes.c_char_p, 'void': None}


def fits(kind, c):
    """Is this ctypes type what C calls `c`?"""
    if c.startswith('enum '):
        return kind is ctypes.c_int
    if c.endswith(']'):
        base, size = c[:-1].split('[')
        return issubclass(kind, ctypes.Array) and kind._length_ == int(size) and ctypes.sizeof(kind) == int(size) \
            and base == 'unsigned char'
    if c in PLAIN:
        return kind is PLAIN[c]
    if c == '(*)':
        return kind is _library.Combine
    assert c.endswith('*'), c
    pointed = re.sub(r'^const ', '', c[:-1])
    if kind is ctypes.c_void_p:  # arrays, handles
        return not pointed.endswith('*') or 'plait_alg' in pointed
    struct = _library.STRUCTS.get(pointed.replace('struct ', ''))
    target = struct or {'void*': ctypes.c_void_p, 'struct plait_comm*': ctypes.c_void_p}.get(pointed) or PLAIN[pointed]
    return kind is ctypes.POINTER(target)


def every_collective_has_a_method():
    methods = [row[1].strip('"') for row in headers.rows(folders, 'PLAIT_COLL_LIST')]
    methods += [name + 'v' for name in methods if 'plait_' + name + 'v' in declared]
    assert len(methods) >= 14, methods
    missing = [name for name in methods if not hasattr(plait.Comm, name)]
    assert not missing, missing


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
    expected = {name: int(value) for name, value, _ in rows if name != 'PLAIT_OK'}
    classes = [getattr(plait, name) for name in plait.__all__ if name.endswith('Error') and name != 'Error']
    assert {c.name: c.status for c in classes} == expected
    for name in expected:
        assert issubclass(getattr(plait, name[len('PLAIT_ERR_'):].title() + 'Error'), plait.Error), name


def names_of_rounding_are_the_enum():
    names = headers.enumerators(folders, 'plait_round')
    assert names == ['PLAIT_ROUND_' + name.upper() for name in _library.ROUNDS], names


def versions_and_soname_are_the_library_s():
    with open(pyproject, encoding='utf-8') as file:
        assert f'version = "{plait.version()}"' in file.read(), plait.version()
    dynamic = subprocess.run(['readelf', '-d', _library.lib._name], check=True, capture_output=True, text=True).stdout
    assert f'[{_library.SONAME}]' in dynamic, dynamic


sentences.run([
    every_collective_has_a_method, functions_take_what_the_headers_say, structs_have_the_fields_of_the_headers,
    structs_have_the_sizes_of_the_library, exceptions_are_the_list_of_statuses, names_of_rounding_are_the_enum,
    versions_and_soname_are_the_library_s,
])
