#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Numbers, layouts and names of NCCL as tables of facts, and whether ours agree.

  facts.py make WHEEL_FOLDER > VERSION.txt     from NVIDIA's files: a folder with include/nccl.h and lib/libnccl.so.2, as
                                               nvidia/nccl in the wheel nvidia-nccl-cu13 (needs cc and nm; not CUDA)
  facts.py test CC NM LIBNCCL OURS FACTS ...   our headers in the folder OURS and our library, against tables

A table has lines "value NAME NUMBER", "size STRUCT BYTES", "field STRUCT NAME OFFSET BYTES", "function NAME RESULT(TYPES)"
and "name EXPORTED".
"""
import os
import re
import subprocess
import sys
import tempfile

# What NVIDIA's header needs of CUDA.
CUDA = {'cuda_runtime.h': '#define CUDART_VERSION 13000\n#define __host__\n'
                          'typedef struct CUstream_st *cudaStream_t;\ntypedef struct CUevent_st *cudaEvent_t;\n',
        'cuda_fp16.h': '', 'cuda_bf16.h': '', 'cuda.h': 'typedef int CUmemLocationType;\n'}
# Structs and constants of the device API that are used on the host: other parts of those headers need nvcc.
DEVICE = ('ncclTeam', 'ncclCommProperties', 'ncclGinConnectionType_t', 'ncclGinType_t', 'ncclCftTeamMode_t')


def code_of(path):
    with open(path, encoding='utf-8') as file:
        text = file.read()
    text = re.sub(r'/\*.*?\*/', '', text, flags=re.S)
    return re.sub(r'//.*', '', text)


def declarations(text, wanted=None):
    """Constants of enums; fields of structs by the name that they have as a type."""
    constants, structs = [], {}
    for body, name in re.findall(r'typedef\s+enum\s*\w*\s*{([^}]*)}\s*(\w+)\s*;', text):
        if wanted is None or name in wanted:
            constants += re.findall(r'\b(\w+)\s*(?:=[^,]*)?(?:,|$)', body.strip())
    nested = r'[^{}]*(?:{[^{}]*}[^{}]*)*'
    for tag, body, name in re.findall(rf'(?:typedef\s+)?struct\s*(\w*)\s*{{({nested})}}\s*(\w*)\s*;', text):
        if wanted is None and not name or wanted is not None and tag not in wanted:
            continue
        fields = []
        for line in re.sub(r'{[^}]*}', '', body).split(';'):
            line = re.sub(r'\[[^\]]*\]', '', line).strip()
            fields += [re.search(r'(\w+)$', part.strip()).group(1) for part in line.split(',') if line]
        structs[name or f'struct {tag}'] = fields
    return constants, structs


def macros(text):
    """Those that stand for numbers."""
    found = re.findall(r'^#define\s+(NCCL_\w+)\s+(\S.*)$', text, flags=re.M)
    return [name for name, value in found if re.fullmatch(r'\(?-?(0x[0-9a-fA-F]+|\d+|INT_MIN|INT_MAX)\)?', value.strip())
            and name not in ('NCCL_MAJOR', 'NCCL_MINOR', 'NCCL_PATCH', 'NCCL_VERSION_CODE')]


def run(program, flags, compiler='cc'):
    with tempfile.TemporaryDirectory() as room:
        for name, text in {**CUDA, 'facts.c': program}.items():
            with open(os.path.join(room, name), 'w', encoding='utf-8') as file:
                file.write(text)
        subprocess.run([*compiler.split(), *flags, '-I', room, '-o', f'{room}/facts', f'{room}/facts.c'], check=True)
        return subprocess.run([f'{room}/facts'], check=True, capture_output=True, text=True).stdout


def questions(constants, structs):
    lines = [f'printf("value {name} %lld\\n", (long long)({name}));' for name in constants]
    for struct, fields in structs.items():
        lines.append(f'printf("size {struct.replace(" ", "_")} %zu\\n", sizeof({struct}));')
        lines += [f'printf("field {struct.replace(" ", "_")} {f} %zu %zu\\n", offsetof({struct}, {f}), '
                  f'sizeof((({struct} *)0)->{f}));' for f in fields]
    return '\n'.join(lines)


def exported(nm, library):
    text = subprocess.run([nm, '-D', '--defined-only', library], check=True, capture_output=True, text=True).stdout
    return sorted({line.split()[-1] for line in text.splitlines() if re.fullmatch(r'p?nccl\w+', line.split()[-1])})


def functions(text):
    """Result and types of parameters."""
    for result, name, parameters in re.findall(r'\b(ncclResult_t|const char\s*\*|void)\s+(nccl\w+)\s*\(([^()]*)\)\s*;', text):
        types = []
        for parameter in parameters.split(','):
            parameter = ' '.join(parameter.split())
            kind = re.sub(r'(?<=[\s*])\w+$', '', parameter) if ' ' in parameter else parameter or 'void'
            types.append(kind.replace(' *', '*').strip())
        yield f'function {name} {result.replace(" *", "*")}({", ".join(types)})'


def make(folder):
    include = os.path.join(folder, 'include')
    text = code_of(os.path.join(include, 'nccl.h'))
    constants, structs = declarations(text)
    extra, header = '', '#include <nccl.h>\n'
    if os.path.exists(os.path.join(include, 'nccl_device/host.h')):
        # The parts that we have: cut out, as the rest is for nvcc.
        for name in ('nccl_device/core.h', 'nccl_device/host.h'):
            device = code_of(os.path.join(include, name))
            for match in re.finditer(r'(?:typedef\s+)?(?:struct|enum)\s*(\w*)\s*{[^}]*}\s*(\w*)\s*;', device):
                if match.group(1) in DEVICE or match.group(2) in DEVICE:
                    extra += match.group(0) + '\n'
        more, other = declarations(extra, DEVICE)
        constants, structs = constants + more, {**structs, **other}
    program = f'#include <stdio.h>\n#include <stddef.h>\n#include <stdbool.h>\n{header}{extra}int main(void) {{\n' \
        f'{questions(macros(text) + constants, structs)}\nreturn 0;\n}}\n'
    print(run(program, ['-I', include]), end='')
    print(*sorted(set(functions(text))), sep='\n')
    for name in exported('nm', os.path.join(folder, 'lib/libnccl.so.2')):
        print('name', name)


def holds(fact, newest):
    """A C condition. Structs that carry their size have grown since older tables."""
    kind, name, *rest = fact.split()
    if kind == 'function':
        result, types = fact.split(None, 2)[2].split('(')
        return f'_Generic(&{name}, {result}(*)({types}: 1, default: 0)'
    struct = 'struct ' + name[7:] if name.startswith('struct_') else name
    if kind == 'value':
        return f'(long long)({name}) == {rest[0]}LL' if int(rest[0]) != -2**31 else f'(long long)({name}) == INT_MIN'
    if kind == 'size':
        return f'sizeof({struct}) {"==" if newest else ">="} {rest[0]}'
    return f'offsetof({struct}, {rest[0]}) == {rest[1]} && sizeof((({struct} *)0)->{rest[0]}) == {rest[2]}'


NOT_OURS = {'ncclNumResults'}  # 8 in 2.28, which had no ncclTimeout


def test(compiler, nm, library, ours, *tables):
    facts = {}
    for table in tables:
        with open(table, encoding='utf-8') as file:
            facts[table] = [line.strip() for line in file if line.strip()]
    newest = max(tables)
    lines = ['#include "nccl.h"', '#include "device.h"']
    for table, lines_of_table in facts.items():
        for fact in lines_of_table:
            if fact.startswith('name ') or table != newest and fact.split()[1] in NOT_OURS:
                continue
            lines.append(f'_Static_assert({holds(fact, table == newest)}, "{os.path.basename(table)}: {fact}");')
    with tempfile.NamedTemporaryFile('w', suffix='.c') as file:
        file.write('\n'.join(lines) + '\n')
        file.flush()
        bad = subprocess.run([*compiler.split(), '-std=c11', '-fsyntax-only', '-I', ours, file.name], check=False,
                             capture_output=True, text=True)
    wrong = re.findall(r'error: .*', bad.stderr) if bad.returncode else []
    names = [fact.split()[1] for fact in facts[newest] if fact.startswith('name ')]
    have = exported(nm, library)
    wrong += [f'not exported: {n}' for n in sorted(set(names) - set(have))]
    wrong += [f'exported, and no name of NCCL: {n}' for n in sorted(set(have) - set(names))]
    older = {fact.split()[1] for t in tables for fact in facts[t] if fact.startswith('name ')}
    wrong += [f'of an older release, and not exported: {n}' for n in sorted(older - set(have))]
    text = subprocess.run([nm, '-D', '--defined-only', library], check=True, capture_output=True, text=True).stdout
    wrong += [f'exported: {line}' for line in text.splitlines() if not re.fullmatch(r'p?nccl\w+', line.split()[-1])
              and not re.match(r'__\w*san|__odr_asan|__start___sancov|__stop___sancov', line.split()[-1])]
    print('\n'.join(wrong) or f'{len(lines) - 2} facts and {len(names)} names agree')
    return 1 if wrong else 0


if sys.argv[1] == 'make':
    make(sys.argv[2])
else:
    sys.exit(test(*sys.argv[2:]))
