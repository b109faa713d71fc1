#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""docs/nccl.md and plait-info --nccl say what nccl/'s tables say. Usage: docs_test.py PLAIT_INFO PAGE NCCL_FOLDER

  docs_test.py --print NCCL_FOLDER      the tables of the page
"""
import os
import re
import subprocess
import sys

WORDS = {'REAL': 'real', 'EMULATED': 'emulated', 'REFUSED': 'refused'}


def rows(folder, header, macro):
    with open(os.path.join(folder, header), encoding='utf-8') as file:
        text = file.read()
    body = re.search(rf'#define {macro}\(X\)(.*?)\n\n', text, re.S).group(1).replace('\\\n', ' ')
    for row in re.findall(r'X\(((?:[^()"]|"(?:[^"\\]|\\.)*")*)\)', body):
        parts = re.findall(r'\w+|(?:"(?:[^"\\]|\\.)*"\s*)+', row)
        yield [''.join(re.findall(r'"((?:[^"\\]|\\.)*)"', p)).replace('\\"', '"') if p[0] == '"' else p for p in parts]


def tables(folder):
    functions = list(rows(folder, 'names.h', 'NCCL_NAME_LIST'))
    differ = {}  # those that do not what NCCL's do, by what is said of them
    for name, support, text in functions:
        if support != 'REAL':
            differ.setdefault(f'{WORDS[support]} | {text}', []).append(f'`nccl{name}`')
    differ = [f'| {", ".join(names)} | {what} |' for what, names in sorted(differ.items())]
    honoured = [f'| `{name}` | {text} |' for name, _, text in rows(folder, 'environment.h', 'NCCL_HONOURED_LIST')]
    meaningless = [f'| `{start}*` | {text} |' for start, text in rows(folder, 'environment.h', 'NCCL_MEANINGLESS_LIST')]
    return [f'nccl{f[0]}' for f in functions], differ, honoured, meaningless


if sys.argv[1] == '--print':
    for table in tables(sys.argv[2])[1:]:
        print('\n'.join(table) + '\n')
    sys.exit(0)
info, page, nccl = sys.argv[1:]
functions, differ, honoured, meaningless = tables(nccl)
assert len(functions) == 97 and len(honoured) >= 8 and len(meaningless) >= 10, (len(functions), len(honoured))
with open(page, encoding='utf-8') as file:
    lines = set(file.read().splitlines())
shown = subprocess.run([info, '--nccl'], check=True, capture_output=True, text=True).stdout
wrong = [f'{page} lacks: {row}' for row in differ + honoured + meaningless if row not in lines]
wrong += [f'{page} has, and nccl/ not: {line}' for line in lines
          if re.match(r'\| `nccl.*\| (emulated|refused) \|', line) and line not in differ]
for name in functions + [row.split('`')[1].rstrip('*') for row in honoured + meaningless]:
    if not re.search(rf'^  {name}\b', shown, re.M) and not re.search(rf'^  {name} ', shown, re.M):
        wrong.append(f'plait-info --nccl lacks {name}')
print('\n'.join(wrong) or f'{len(functions)} functions and {len(honoured) + len(meaningless)} names agree')
sys.exit(1 if wrong else 0)
