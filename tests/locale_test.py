#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""No source reads or compares text by the locale of the program that it runs in. Usage: locale_test.py SOURCE_ROOT"""
import pathlib
import re
import sys

FOLDERS = ('algorithms', 'bench', 'common', 'cuda', 'files', 'include', 'launchers', 'lib', 'nccl', 'simulate', 'tools', 'topology', 'train', 'transports')
IN_THE_PLACE = 'lib/base/ascii.h has what stands in its place'
# isdigit() and isxdigit() are the same in every locale.
CALL = re.compile(r'\b(strto(?:d|f|ld)|atof|strn?casecmp|is(?:alpha|alnum|space|upper|lower|punct|print|graph|cntrl|blank)|'
                  r'to(?:upper|lower)|strcoll|strxfrm|setlocale|strcasestr)\s*\(')
SCANNED = re.compile(r'scanf\s*\([^;]*%[*0-9]*[lL]?[aefgAEFG]')


def faults(root):
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob('*')):
            name = path.relative_to(root).as_posix()
            if path.suffix not in ('.c', '.h', '.cu', '.cuh') or name == 'lib/base/ascii.h':
                continue
            text = re.sub(r'/\*.*?\*/', lambda m: '\n' * m[0].count('\n'), path.read_text(), flags=re.S)
            for expression in (CALL, SCANNED):
                for m in expression.finditer(text):
                    line = text.count('\n', 0, m.start()) + 1
                    yield f'{name}:{line}: {m[0][:40]!r} depends on the locale; {IN_THE_PLACE}'


found = list(faults(pathlib.Path(sys.argv[1])))
print('\n'.join(found) or 'passed')
sys.exit(bool(found))
