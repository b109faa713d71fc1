#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Mutations of lib/: mutate.py BUILD [--seed N] [--count N] [--from N] [--limit SECONDS]

Changes one operator, constant or statement at a time on lines drawn uniformly from lib/*.c, builds the tests of its room in
BUILD, runs them until one fails, and restores the file. What no test catches is either equivalent to what was there or a
promise without a test. Nothing else may build or change this tree meanwhile: use a git worktree.
"""
import argparse
import glob
import json
import os
import random
import re
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
TESTS = {  # of each room, the quick and likely ones first
    'base': ['config', 'log', 'locale', 'descriptors', 'launch', 'fork', 'resources'],
    'plugin': ['net', 'conformance_net', 'origin', 'ucx', 'cuda_calls'],
    'memory': ['resources', 'alloc', 'leftovers', 'cuda_copies', 'nccl_one_rank'],
    'plan': ['plan', 'oracle', 'mutation', 'check'],
    'reduce': ['reduce', 'passes', 'optim', 'rounding'],
    'machine': ['explain', 'info', 'cma'],
    'bootstrap': ['meeting', 'tcp', 'strangers', 'launch', 'claim', 'addresses'],
    'launch': ['launch', 'two_jobs'],
    'transport': ['conformance', 'paced', 'threads'],
    'comm': ['dump', 'manage', 'eager', 'cma', 'failure'],
    'failure': ['differ', 'dump', 'slow', 'remote', 'failure', 'ring', 'hangs'],
    'progress': ['progress_thread', 'stopped', 'signals', 'requests', 'failure', 'tcp'],
    'operation': ['own_algorithm', 'requests', 'explain', 'differ', 'failure', 'collectives'],
    'eager': ['threads', 'counts', 'cma', 'eager'],
    'device': ['cuda_calls', 'cuda_devices', 'cuda_requests', 'cuda_collectives', 'cuda_messages', 'cuda_deaths'],
    'engine': ['staging', 'cma', 'counts', 'explain', 'cuda_collectives', 'engine', 'reproducible'],
    'request': ['requests', 'groups', 'streams', 'cuda_requests', 'fork'],
    'p2p': ['messages', 'staging', 'groups', 'cuda_messages', 'conformance_net'],
    'call': ['own_algorithm', 'requests', 'groups', 'failure', 'collectives', 'cuda_calls'],
    'lifecycle': ['manage', 'descriptors', 'leftovers', 'two_jobs', 'failure', 'limits'],
    'fusion': ['fusion_alone', 'fusion', 'passes', 'cuda_fusion'],
    'optim': ['optim', 'optim_finite', 'schedule', 'optim_ranks', 'cuda_optim'],
    'elastic': ['elastic_use', 'elastic', 'elastic_deaths'],
}
SWAPS = [('==', '!='), ('!=', '=='), ('<=', '<'), ('>=', '>'), (' < ', ' <= '), (' > ', ' >= '), ('&&', '||'), ('||', '&&'),
         (' + ', ' - '), (' - ', ' + '), (' * ', ' + '), ('++', '--'), ('true', 'false'), ('false', 'true')]
STATEMENT = re.compile(r'    +(?!return|break|continue|goto|const |struct |enum |static |case |default)[\w>.*\[\]()-]+.*;')


def mutants(line):
    """What may become of a line."""
    code = re.sub(r'/\*.*?\*/|"(\\.|[^"\\])*"', lambda m: ' ' * len(m.group()), line)
    found = [(m.start(), a, b) for a, b in SWAPS for m in re.finditer(re.escape(a), code)]
    found += [(m.start(), m.group(), str(int(m.group()) + 1)) for m in re.finditer(r'(?<![\w.])\d+(?![\w.])', code)]
    results = [line[:at] + b + line[at + len(a):] for at, a, b in found]
    if STATEMENT.fullmatch(line.rstrip()) and line.count('(') == line.count(')'):
        results.append(re.match(' *', line).group() + ';')
    return results


def lines():
    """(path, number) of every line of code in functions."""
    for path in sorted(glob.glob(os.path.join(ROOT, 'lib/**/*.c'), recursive=True)):
        comment = False
        with open(path, encoding='utf-8') as f:
            for number, line in enumerate(f):
                comment = comment or line.lstrip().startswith('/*')
                if not comment and line.startswith('    ') and mutants(line.rstrip('\n')):
                    yield path, number
                comment = comment and '*/' not in line


def run(command, limit):
    try:
        done = subprocess.run(command, cwd=ROOT, timeout=limit, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return done.returncode == 0
    except subprocess.TimeoutExpired:
        return False


def needs(build, test):
    """What is built for a test."""
    def ask(what):
        return json.loads(subprocess.run(['meson', 'introspect', '--' + what, build], check=True, capture_output=True).stdout)

    files = {t['id']: t['filename'] for t in ask('targets')}
    found = [f for t in ask('tests') if t['name'] == test for f in t['cmd'] + sum((files[d] for d in t['depends']), [])]
    return sorted({os.path.relpath(f, build) for f in found if f.startswith(build + os.sep) and not f.endswith('.json')})


def try_one(build, path, number, mutant, limit):
    """The test that fails, or ''; None: it does not compile."""
    with open(path, encoding='utf-8') as f:
        text = f.read()
    changed = text.split('\n')
    changed[number] = mutant
    room = os.path.relpath(path, os.path.join(ROOT, 'lib')).split(os.sep)[0]
    with open(path, 'w', encoding='utf-8') as f:
        f.write('\n'.join(changed))
    try:
        if not run(['meson', 'compile', '-C', build, '-j2', 'plait:shared_library'], None):
            return None
        for test in TESTS[room]:
            run(['ninja', '-C', build, '-j2'] + needs(build, test), None)
            if not run(['meson', 'test', '-C', build, '--no-rebuild', test], limit):
                return test
        return ''
    finally:
        with open(path, 'w', encoding='utf-8') as f:
            f.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('build')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--count', type=int, default=20)
    parser.add_argument('--limit', type=float, default=120, help='seconds of a test; after them it counts as failed')
    o = parser.parse_args()
    draw, all_lines = random.Random(o.seed), list(lines())
    caught = tried = 0
    while tried < o.count:
        path, number = draw.choice(all_lines)
        with open(path, encoding='utf-8') as f:
            line = f.read().split('\n')[number]
        mutant = draw.choice(mutants(line))
        test = try_one(os.path.abspath(o.build), path, number, mutant, o.limit)
        if test is None:
            continue
        tried, caught = tried + 1, caught + (test != '')
        print(f'{os.path.relpath(path, ROOT)}:{number + 1}: {line.strip()} -> {mutant.strip()}: {test or "SURVIVED"}', flush=True)
    print(f'{caught} of {tried} caught, seed {o.seed}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
