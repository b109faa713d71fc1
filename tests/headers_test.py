#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The public headers are the manual, of what the library exports.

Usage: headers_test.py NM LIBPLAIT SOURCE_FOLDER HEADER_FOLDER ...
"""
import os
import re
import subprocess
import sys

import headers
import sentences

nm, library, source, *folders = sys.argv[1:]
functions = headers.functions(folders)


def text_of(*path):
    with open(os.path.join(source, *path), encoding='utf-8') as file:
        return file.read()


def every_function_says_which_threads_may_call_it():
    missing = [f'{f.header}: {f.name}' for f in functions
               if not f.is_variable and 'Thread' not in f.comment and 'Thread' not in f.group]
    assert not missing, 'no "Thread:" in the comment, nor in that of the group: ' + ', '.join(missing)


def every_function_that_can_fail_says_how():
    missing = [f'{f.header}: {f.name}' for f in functions
               if f.returns == 'enum plait_status' and 'Errors:' not in f.comment and 'Errors:' not in f.group]
    assert not missing, 'no "Errors:" in the comment, nor in that of the group: ' + ', '.join(missing)


def every_function_has_a_comment():
    missing = [f'{f.header}: {f.name}' for f in functions if not f.comment]
    assert not missing, 'no comment above: ' + ', '.join(missing)


def what_is_exported_is_declared_and_what_is_declared_is_exported():
    symbols = subprocess.run([nm, '-D', '--defined-only', library], check=True, capture_output=True, text=True).stdout
    exported = {line.split()[-1] for line in symbols.splitlines() if line.split()[-1].startswith('plait_')}
    declared = {f.name for f in functions}
    assert exported, f'{nm} shows no name of {library}'
    assert exported == declared, f'only exported: {sorted(exported - declared)}; only declared: {sorted(declared - exported)}'


# Of use to those who know NCCL or MPI; the other headers are for writers of algorithms.
FOR_USERS = {'coll.h', 'comm.h', 'group.h', 'memory.h', 'message.h', 'request.h', 'stream.h'}
# Names and sizes of types and operators, and what would run: nothing that others have by another name.
WITHOUT_COUNTERPART = re.compile(r'plait_(coll|dtype|op)_\w+|plait_choose')


def the_pages_for_users_of_others_name_what_exists_and_every_function_of_use():
    known = set(re.findall(r'plait_\w+|PLAIT_\w+', headers.code(folders) + text_of('lib', 'base', 'config_rows.c')))
    functions_of_use = {f.name for f in functions if f.header in FOR_USERS and
                        not WITHOUT_COUNTERPART.fullmatch(f.name)}
    assert len(functions_of_use) >= 50, functions_of_use
    for page in ('nccl.md', 'mpi.md'):
        text = text_of('docs', page)
        names = set(re.findall(r'plait_\w+|PLAIT_\w+', text))
        if page == 'nccl.md':  # which leaves the counterparts of NCCL's functions to plait-info --nccl
            names |= set(re.findall(r'plait_\w+', text_of('nccl', 'names.h')))
        assert names <= known | {'PLAIT_'}, f'{page} names what does not exist: {sorted(names - known)}'
        assert functions_of_use <= names, f'{page} does not name {sorted(functions_of_use - names)}'
        assert 'To be filled' not in text and 'Not here yet' not in text, f'{page} is not written to its end'


sentences.run([every_function_says_which_threads_may_call_it, every_function_that_can_fail_says_how,
               every_function_has_a_comment, what_is_exported_is_declared_and_what_is_declared_is_exported,
               the_pages_for_users_of_others_name_what_exists_and_every_function_of_use])
