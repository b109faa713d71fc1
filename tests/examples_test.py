#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The programs that a newcomer reads first.

Usage: examples_test.py SOURCE_FOLDER LIBRARY HEADER_FOLDER ... -- CC ...
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import sentences

source, library, *folders = (pathlib.Path(a) for a in sys.argv[1:sys.argv.index('--')])
compiler = sys.argv[sys.argv.index('--') + 1:]
MOST = 119  # lines of an example


def every_example_is_short():
    files = [f for f in (source / 'examples').iterdir() if f.suffix in ('.c', '.h', '.py')]
    assert len(files) >= 10, files
    lines = {f.name: len(f.read_text(encoding='utf-8').splitlines()) for f in files}
    long = {name: n for name, n in lines.items() if n > MOST}
    assert not long, f'more than {MOST} lines: {long}'


def the_program_of_the_readme_runs_and_prints_what_the_readme_says():
    text = (source / 'README.md').read_text(encoding='utf-8')
    program, = re.findall(r'^```c\n(.*?)^```$', text, re.DOTALL | re.MULTILINE)
    expected, = re.findall(r'prints, in any order,\n\n```\n(.*?)^```$', text, re.DOTALL | re.MULTILINE)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, 'sum')
        subprocess.run([*compiler, '-std=c11', '-Wall', '-Wextra', '-Werror', *(f'-I{f}' for f in folders), '-o', file,
                        '-x', 'c', '-', '-x', 'none', library, f'-Wl,-rpath,{library.resolve().parent}'],
                       input=program, text=True, check=True)
        names = {'WORLD_SIZE': '2', 'LOCAL_WORLD_SIZE': '2', 'TORCHELASTIC_RUN_ID': folder, 'MASTER_ADDR': 'localhost'}
        ranks = [subprocess.Popen(file, stdout=subprocess.PIPE, text=True, env={**os.environ, **names, 'RANK': r, 'LOCAL_RANK': r})
                 for r in '01']
        printed = [rank.communicate(timeout=60)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], printed
    assert sorted(printed) == sorted(expected.splitlines(keepends=True)), printed


sentences.run([every_example_is_short, the_program_of_the_readme_runs_and_prints_what_the_readme_says])
