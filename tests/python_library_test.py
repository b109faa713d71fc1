#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Which library the Python package loads, the error if it is of another release, and the programs that `plait` starts.
Usage: python_library_test.py SOURCE_FOLDER LIBRARY OLD_LIBRARY
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

source, library, old = (pathlib.Path(p).resolve() for p in sys.argv[1:])
VERSION, = re.findall(r"^VERSION = '(.*)'", (source / 'python/plait/_library.py').read_text(), re.M)
WHICH = 'import plait; print(plait.version(), plait._library._path_of(plait._library.lib.plait_version))'


def python(*arguments, folder=source / 'python', **environment):
    """What a program of its own says on stdout and stderr."""
    return subprocess.run([sys.executable, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, env={'PYTHONPATH': str(folder), **environment}).stdout


def wheel(room, inside):
    """The package as a wheel has it, with this library inside."""
    folder = room / 'wheel'
    shutil.copytree(source / 'python', folder)
    (folder / 'plait/_prefix/lib').mkdir(parents=True)
    shutil.copy(inside, folder / 'plait/_prefix/lib/libplait.so.0')
    return folder


def elsewhere(room, what):
    """A folder where the loader finds this library."""
    folder = room / 'elsewhere'
    folder.mkdir()
    shutil.copy(what, folder / 'libplait.so.0')
    return folder


def plait_library_is_loaded_before_all_others(room):
    said = python('-c', WHICH, folder=wheel(room, old), PLAIT_LIBRARY=str(library))
    assert said.split() == [VERSION, str(library)], said


def a_wheel_loads_its_own_library(room):
    folder, other = wheel(room, library), elsewhere(room, old)
    said = python('-c', WHICH, folder=folder, LD_LIBRARY_PATH=str(other))
    assert said.split() == [VERSION, f'{folder}/plait/_prefix/lib/libplait.so.0'], said


def a_wheel_loads_its_own_library_beside_one_that_is_loaded(room):
    folder, other = wheel(room, library), elsewhere(room, old)
    said = python('-c', WHICH, folder=folder, LD_PRELOAD=f'{other}/libplait.so.0')
    assert said.split() == [VERSION, f'{folder}/plait/_prefix/lib/libplait.so.0'], said
    said = python('-c', f'import ctypes; ctypes.CDLL("{other}/libplait.so.0", ctypes.RTLD_GLOBAL); {WHICH}', folder=folder)
    assert said.split() == [VERSION, f'{folder}/plait/_prefix/lib/libplait.so.0'], said


def a_package_without_a_library_takes_that_of_the_loader(room):
    other = elsewhere(room, library)
    said = python('-c', WHICH, LD_LIBRARY_PATH=str(other))
    assert said.split() == [VERSION, f'{other}/libplait.so.0'], said


def a_library_of_another_release_is_named_with_both_versions_and_places(room):
    said = python('-c', 'import plait', PLAIT_LIBRARY=str(old))
    assert f'ImportError: this package is Plait {VERSION} ({source}/python/plait), but the library is Plait 0.0.9 ({old}); ' \
        'install both from one release, or unset PLAIT_LIBRARY' in said, said
    other = elsewhere(room, old)
    said = python('-c', 'import plait', LD_LIBRARY_PATH=str(other))
    assert f'Plait 0.0.9 ({other}/libplait.so.0); install both' in said and 'unset' not in said, said
    assert said.count('Traceback') <= 1 and '_library.py' not in said, said


def the_command_starts_programs_of_the_package(room):
    folder = wheel(room, library)
    (folder / 'plait/_prefix/bin').mkdir()
    for name in 'plait-info', 'plait-perf':
        program = folder / 'plait/_prefix/bin' / name
        program.write_text('#!/bin/sh\necho "$0" "$@"\n')
        program.chmod(0o755)
    where = folder / 'plait/_prefix/bin'
    assert python('-m', 'plait', folder=folder) == f'{where}/plait-info\n'
    assert python('-m', 'plait', '--features', folder=folder) == f'{where}/plait-info --features\n'
    assert python('-m', 'plait', 'info', '--features', folder=folder) == f'{where}/plait-info --features\n'
    assert python('-m', 'plait', 'perf', '-b', '1K', folder=folder) == f'{where}/plait-perf -b 1K\n'
    assert python('-m', 'plait', '--help', folder=folder).startswith('usage: plait [OPTION ...]')
    assert 'there is no plait-plan' in python('-m', 'plait', 'plan', folder=folder, PATH='/nowhere')
    program.rename(room / 'plait-plan')
    assert python('-m', 'plait', 'plan', folder=folder, PATH=f'{room}:/usr/bin:/bin') == f'{room}/plait-plan\n'


for test in [plait_library_is_loaded_before_all_others, a_wheel_loads_its_own_library,
             a_wheel_loads_its_own_library_beside_one_that_is_loaded,
             a_package_without_a_library_takes_that_of_the_loader,
             a_library_of_another_release_is_named_with_both_versions_and_places,
             the_command_starts_programs_of_the_package]:
    print(f'[ RUN      ] {test.__name__}')
    with tempfile.TemporaryDirectory() as name:
        test(pathlib.Path(os.path.realpath(name)))
    print(f'[       OK ] {test.__name__}')
