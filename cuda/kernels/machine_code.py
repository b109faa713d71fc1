#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Looks at the machine code of an owner's kernels (plait, train): machine_code.py OWNER PTXAS NVDISASM PTX...

Kernels move bulk data by loads and stores of 16 bytes, have several of these loads in one run, and use no local
memory there. A *run* is the instructions between two labels or branches.
"""
import os
import re
import subprocess
import sys
import tempfile

# Kernel: loads of 16 bytes in its widest run, stores of 16 bytes in its widest run, may the rest use local memory?
WANTED = {
    'plait_copy': (4, 1, False),
    'plait_copies': (4, 1, False),
    'plait_pack': (4, 2, False),
    'plait_unpack': (4, 4, False),
    'plait_optim_squares': (4, 0, False),
    'plait_optim_update': (6, 2, False),
    'plait_reduce_float32': (4, 1, True),
    'plait_reduce_bfloat16': (4, 1, True),
    'train_norm_sums': (4, 0, False),
    'train_norm_forward': (4, 4, False),
    'train_norm_back_sums': (4, 0, False),
    'train_norm_back': (4, 2, False),
    'train_pool_max': (3, 1, False),
    'train_pool_max_back': (1, 1, False),
    'train_pool_average': (4, 1, False),
    'train_pool_average_back': (1, 1, False),
    'train_add': (8, 1, False),
    'train_finite': (4, 0, False),
    'train_convert': (8, 2, False),
    'train_images': (0, 4, False),
}
if os.environ.get('PLAIT_TEST_TIER') == 'full':
    WANTED.update(plait_reduce_float16=(4, 1, True), plait_reduce_float64=(4, 1, True))


def only_wanted(ptx):
    """The module without other kernels: compiling is what takes time."""
    kernel = r'^(?:\.visible )?\.entry (\w+)\(.*?^\}\n'
    return re.sub(kernel, lambda m: m[0] if m[1] in WANTED else '', ptx, flags=re.MULTILINE | re.DOTALL)


def functions(sass):
    """Name, then its runs of instructions."""
    for part in re.split(r'^\.text\.(?=\w+:)', sass, flags=re.MULTILINE)[1:]:
        name = part.split(':', 1)[0]
        runs = [[]]
        for line in part.splitlines():
            if line.startswith('.L_'):
                runs.append([])
            found = re.search(r'\*/\s+(?:\{\s*)?(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)', line)
            if found:
                runs[-1].append(found[1])
        yield name, runs


def is_wide(op, kind):
    return re.match(kind + r'G?\.E\b.*\.128\b', op) is not None


def check(name, runs):
    loads, stores, local = WANTED[name]
    wide = [(sum(is_wide(op, 'LD') for op in r), sum(is_wide(op, 'ST') for op in r),
             any(op[:3] in ('LDL', 'STL') for op in r)) for r in runs]
    seen = (max(w[0] for w in wide), max(w[1] for w in wide))
    wrong = []
    if seen[0] < loads or seen[1] < stores:
        wrong.append(f'{loads} loads and {stores} stores of 16 bytes wanted in a run')
    if any(w[2] for w in wide if not local or w[0] >= loads):
        wrong.append('local memory in the hot code')
    print(f'{name}: {seen[0]} loads and {seen[1]} stores of 16 bytes in the widest runs; {"; ".join(wrong) or "ok"}')
    return not wrong


owner, ptxas, nvdisasm, *files = sys.argv[1:]
WANTED = {name: wanted for name, wanted in WANTED.items() if name.startswith(owner + '_')}
found = {}
with tempfile.TemporaryDirectory() as folder:
    for path in files:
        cubin, ptx = os.path.join(folder, 'cubin'), os.path.join(folder, 'ptx')
        with open(path) as whole, open(ptx, 'w') as some:
            some.write(only_wanted(whole.read()))
        subprocess.run([ptxas, '-arch=sm_90', '-o', cubin, ptx], check=True)
        sass = subprocess.run([nvdisasm, '-c', cubin], check=True, stdout=subprocess.PIPE, text=True).stdout
        found.update({name: check(name, runs) for name, runs in functions(sass) if name in WANTED})
missing = sorted(set(WANTED) - set(found))
if missing:
    print('not found:', *missing)
sys.exit(1 if missing or not all(found.values()) else 0)
