#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The source package for Python has every file of the tree, so that pip can compile the library from it.
Usage: sdist_test.py SOURCE_FOLDER
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

import sentences

source = pathlib.Path(sys.argv[1])
LEFTOVERS = ('python/plait/__pycache__/x.pyc', 'python/build/x.py', 'build/x.c', 'run-1/x.c')  # of builds and runs


def output(*command, cwd):
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, f'{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}'
    return done.stdout


def files_of_the_tree():
    """But those of tools for who changes it, such as .clang-format."""
    names = output('git', 'ls-files', '-z', cwd=source).split('\0')
    return {name for name in names if name and not name.startswith('.') and (source / name).exists()}


def files_of_the_sdist(tree, room):
    """Made in a copy, since setuptools writes into the tree."""
    copy = room / 'copy'
    for name in [*tree, *LEFTOVERS]:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        if name in tree:
            shutil.copy(source / name, copy / name)
        else:
            (copy / name).touch()
    output(sys.executable, 'setup.py', '-q', 'sdist', '--formats=tar', '--dist-dir', room, cwd=copy)
    with tarfile.open(next(room.glob('plait-*.tar'))) as sdist:
        return {member.name.partition('/')[2]: member.mode for member in sdist if member.isfile()}


def the_sdist_has_every_file_of_the_tree_and_no_leftovers():
    tree = files_of_the_tree()
    assert len(tree) > 1000, len(tree)
    with tempfile.TemporaryDirectory() as room:
        files = files_of_the_sdist(tree, pathlib.Path(room))
    assert not tree - files.keys(), f'MANIFEST.in lacks {sorted(tree - files.keys())[:10]}'
    made = {name for name in files.keys() - tree if '.egg-info/' not in name} - {'PKG-INFO', 'setup.cfg'}
    assert not made, f'MANIFEST.in does not leave out {sorted(made)[:10]}'
    assert all(files[name] & 0o100 for name in tree if os.access(source / name, os.X_OK)), 'scripts are not executable'


sentences.run([the_sdist_has_every_file_of_the_tree_and_no_leftovers])
