#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The programs that a newcomer reads first.

Usage: examples_test.py SOURCE_FOLDER HEADER_FOLDER ... -- CC ...
"""
import pathlib
import re
import subprocess
import sys

import sentences

source, *folders = (pathlib.Path(a) for a in sys.argv[1:sys.argv.index('--')])
compiler = sys.argv[sys.argv.index('--') + 1:]
MOST = 119  # lines of an example


def every_example_is_short():
    files = [f for f in (source / 'examples').iterdir() if f.suffix in ('.c', '.h', '.py')]
    assert len(files) >= 10, files
    lines = {f.name: len(f.read_text(encoding='utf-8').splitlines()) for f in files}
    long = {name: n for name, n in lines.items() if n > MOST}
    assert not long, f'more than {MOST} lines: {long}'


def the_program_of_the_readme_compiles_as_it_is():
    blocks = re.findall(r'^```c\n(.*?)^```$', (source / 'README.md').read_text(encoding='utf-8'), re.DOTALL | re.MULTILINE)
    assert blocks, 'README.md shows no program'
    for block in blocks:
        subprocess.run([*compiler, '-std=c11', '-Wall', '-Wextra', '-Werror', *(f'-I{f}' for f in folders),
                        '-fsyntax-only', '-x', 'c', '-'], input=block, text=True, check=True)


sentences.run([every_example_is_short, the_program_of_the_readme_compiles_as_it_is])
