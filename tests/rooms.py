#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The rooms of lib/: includes go one way, as the tables in docs/ARCHITECTURE.md say. Sizes, and names of files."""
import os
import re
import sys
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
OUTSIDE = ('algorithms', 'bench', 'common', 'cuda', 'examples', 'files', 'launchers', 'mpi', 'nccl', 'simulate',
           'tools', 'topology', 'train', 'transports')
SCRIPTS = ('bench', 'python/plait', 'python/plait/torch', 'tools')
# The rooms of which tests include headers: their subjects', besides base/. Other tests see lib/ as its users do.
SUBJECTS = {
    'addresses_test.c': ['bootstrap'],
    'alloc_test.c': ['memory'],  # how much of the arena is in use
    'bound.c': ['plan'],
    'bound.h': ['engine'],
    'campaign_judge.c': ['comm'],  # how far ranks get ahead of each other
    'campaign_left.c': ['memory'],
    'check_test.c': ['plan'],
    'choice_test.c': ['comm', 'engine', 'machine'],
    'claim_test.c': ['bootstrap'],
    'cma_test.c': ['comm', 'engine', 'p2p'],
    'conformance.c': ['comm', 'engine'],
    'counts_test.c': ['comm', 'engine'],
    'differ_test.c': ['comm'],
    'dump_test.c': ['comm', 'memory'],
    'eager_test.c': ['comm', 'failure', 'operation'],
    'elastic_deaths_test.c': ['elastic'],
    'elastic_test.c': ['elastic'],
    'elastic_model.c': ['reduce'],
    'engine_test.c': ['request'],
    'failure_test.c': ['bootstrap', 'comm', 'failure', 'operation', 'progress'],
    'forms_test.c': ['request'],
    'launch_test.c': ['bootstrap', 'launch'],
    'limits_test.c': ['comm', 'engine'],
    'messages_test.c': ['failure', 'p2p'],
    'net_test.c': ['comm', 'plugin'],
    'optim_test.c': ['reduce'],
    'passes_test.c': ['fusion'],
    'perf_test.c': ['reduce'],
    'price.c': ['comm', 'operation'],
    'progress_thread_test.c': ['progress'],
    'proved.h': ['comm', 'engine'],
    'reduce_test.c': ['reduce'],
    'remote_test.c': ['failure'],
    'ring_test.c': ['memory'],  # a program that is no rank shows an arena
    'rounding_test.c': ['reduce'],
    'space_test.c': ['call', 'failure', 'memory', 'request'],
    'staging_test.c': ['comm', 'engine', 'p2p'],
    'star_test.c': ['bootstrap'],
    'strangers_test.c': ['bootstrap'],
    'tcp_test.c': ['bootstrap', 'comm'],
    'train_kernels.c': ['reduce'],  # float16 and bfloat16
    'tune_test.c': ['machine'],
    'tuning_test.c': ['plugin'],
    'ucx_test.c': ['comm', 'plugin'],
    'wire.c': ['comm'],
    'fake_net.h': ['plugin'],
    'shared_net.h': ['plugin'],
    'wire.h': ['plugin'],
    'cuda/direct/device_net.c': ['plugin'],
    'cuda/kernels_test.c': ['fusion', 'reduce'],  # the host's kernels are what the device's must equal
    'cuda/optim_kernels_test.c': ['reduce'],
    'fuzz/bootstrap.c': ['bootstrap'],
    'fuzz/card.c': ['lifecycle'],
    'fuzz/client.c': ['bootstrap'],
    'fuzz/id.c': ['bootstrap'],
    'fuzz/launch.c': ['bootstrap', 'launch'],
    'fuzz/machine_text.h': ['plugin'],
    'fuzz/node_of.c': ['bootstrap'],
    'fuzz/plan_file.c': ['plan'],
    'fuzz/spec.c': ['engine'],
    'fuzz/tuning.c': ['plugin'],
    'fuzz/update.c': ['failure'],
}
HEAD = (10, 30)  # lines of a room's head comment
MOST_LINES, MOST_OF_A_FUNCTION = 450, 80  # of a file of lib/
ENDS = ('.c', '.h', '.cu', '.cuh')
# A file's name in a text; slice.[ch] are two. Not <stdio.h>, *.c, <module>_test.c or plan.hash.
NAME = re.compile(r'(?<![\w./<>*%{}-])[\w./-]*\w\.(?:\[ch\]|cuh|cu|c|h|py|sh)(?![\w/(]|\.\w)')
# Names of files that are not the tree's: of CUDA, of an example's reader, of the installed tree.
OTHERS = {'cuda.h', 'sum.c', 'include/nccl.h', 'plait-perf-ddp.py'}


def read(*path):
    with open(os.path.join(ROOT, *path), encoding='utf-8') as f:
        return f.read()


def table():
    """Rows of the table: (room, rooms that it may include, headers that others may include), from the ground up."""
    rows = re.findall(r'^\| `(\w+)/` \| (.*?) \| ([\w, ]*) \| (.*?) \|$', read('docs', 'ARCHITECTURE.md'), re.M)
    return [(room, re.findall(r'\w+', rooms), re.findall(r'`([\w/.]+\.h)`', headers))
            for room, _, rooms, headers in rows]


def folders():
    """The table of the other folders: folder to the rooms and folders that it may include, besides include/."""
    rows = re.findall(r'^\| `(\w+)/` \| ([\w, ]*) \| [^|]* \|$', read('docs', 'ARCHITECTURE.md'), re.M)
    return {folder: re.findall(r'\w+', names) for folder, names in rows}


def sources(*folders):
    """Paths of C files below these folders, from the root."""
    for folder in folders:
        for at, _, files in os.walk(os.path.join(ROOT, folder)):
            for f in files:
                if f.endswith(ENDS):
                    yield os.path.relpath(os.path.join(at, f), ROOT)


def room_of(path):
    return path.split('/')[1] if path.startswith('lib/') else path.split('/')[0]


def included(path):
    """What a file includes: (name, its path from the root or None), found as the compiler does."""
    own = path.split('/')[0]
    for quote, name in re.findall(r'^\s*#\s*include\s*(["<])([^">]+)[">]', read(path), re.M):
        places = [os.path.dirname(path)] if quote == '"' else []
        places += ['include', 'lib'] if own in ('include', 'lib') else [own, 'common', 'include', 'lib']
        paths = [os.path.normpath(os.path.join(place, name)) for place in places]
        yield name, next((p for p in paths if os.path.isfile(os.path.join(ROOT, p))), None)


def includes(path):
    """Files of lib/ that a file includes."""
    return [found for _, found in included(path) if found is not None and found.startswith('lib/')]


def names_in(text):
    for name in NAME.findall(text):
        for each in [name[:-4] + 'c', name[:-4] + 'h'] if name.endswith(']') else [name]:
            yield each


def head_of(path):
    """The comments at the top of a C file."""
    return re.match(r'(?:\s*/\*(?:.|\n)*?\*/)*', read(path)).group(0)


class Rooms(unittest.TestCase):
    def setUp(self):
        self.rows = table()
        self.order = [room for room, _, _ in self.rows]
        self.files = sorted(sources('lib'))
        self.outside = sorted(sources(*OUTSIDE))

    def test_every_file_of_lib_is_in_a_room_of_the_table(self):
        self.assertEqual(len(self.order), len(set(self.order)))
        self.assertEqual(sorted(set(self.order)), sorted({room_of(f) for f in self.files}))

    def test_a_room_includes_the_rooms_of_its_row_which_are_below_it(self):
        for at, (room, rooms, _) in enumerate(self.rows):
            self.assertEqual([r for r in rooms if r not in self.order[:at]], [], f'{room}/ includes rooms above it')
            used = {room_of(h) for f in self.files if room_of(f) == room for h in includes(f)} - {room}
            self.assertEqual(sorted(used), sorted(rooms), f'rooms that {room}/ includes, and its row')

    def test_lib_includes_nothing_outside(self):
        for f in self.files + sorted(sources('include')):
            for name, path in included(f):
                inside = ('lib/', 'include/') if f.startswith('lib/') else ('include/',)
                self.assertTrue(path is None or path.startswith(inside), f'{f} includes {name}, which is {path}')
                self.assertFalse(path is None and '..' in name, f'{f} includes {name}, which is not found')

    def test_a_folder_beside_lib_includes_what_its_row_says(self):
        rows = folders()
        for folder in OUTSIDE:
            paths = [path for f in self.outside if f.startswith(f'{folder}/') for _, path in included(f) if path]
            used = {room_of(path) for path in paths} - {folder, 'include'}
            self.assertEqual(sorted(used), sorted(rows[folder]), f'what {folder}/ includes, and its row')

    def test_others_include_what_a_room_shows_and_nothing_else(self):
        shown = {f'lib/{room}/{h}' for room, _, headers in self.rows for h in headers}
        used = {h for f in self.files + self.outside for h in includes(f) if room_of(h) != room_of(f)}
        self.assertEqual(sorted(used - shown), [], 'included from another room, but not in the table')
        self.assertEqual(sorted(shown - used), [], 'in the table, but nobody else includes it')

    def test_tests_know_the_rooms_of_their_subjects_and_no_others(self):
        tests = sorted(sources('tests'))
        self.assertEqual(sorted(set(SUBJECTS) - {os.path.relpath(f, 'tests') for f in tests}), [], 'no such test')
        for f in tests:
            used = sorted({room_of(h) for h in includes(f)} - {'base'})
            self.assertEqual(used, SUBJECTS.get(os.path.relpath(f, 'tests'), []), f'rooms that {f} includes')

    def test_each_room_says_what_it_knows(self):
        for room in self.order:
            heads = [read(f) for f in self.files if room_of(f) == room]
            heads = [re.match(r'/\* SPDX.*\n(/\*\n(?: \*.*\n)+)', text) for text in heads]
            heads = [m.group(1) for m in heads if m and f'The room {room}' in m.group(1)]
            self.assertEqual(len(heads), 1, f'lib/{room}: one file begins with "The room {room}: ..."')
            for part in 'promises', 'know':
                self.assertIn(part, heads[0], f'lib/{room}: what the room promises, and what it does not know')
            self.assertTrue(HEAD[0] <= heads[0].count('\n') <= HEAD[1], f'lib/{room}: {heads[0].count(chr(10))} lines')

    def test_pages_and_comments_name_files_that_are_there(self):
        there = set()
        for at, hidden, files in os.walk(ROOT):
            hidden[:] = [d for d in hidden if not d.startswith(('.', 'build'))]
            for f in files:
                parts = os.path.relpath(os.path.join(at, f), ROOT).split('/')
                there |= {'/'.join(parts[i:]) for i in range(len(parts))}
        pages = ['README.md'] + [f'docs/{f}' for f in os.listdir(os.path.join(ROOT, 'docs')) if f.endswith('.md')]
        heads = sorted(sources('lib', 'include', 'tests', *OUTSIDE))
        self.assertGreater(min(sum(len(list(names_in(text))) for text in texts)
                               for texts in ([read(f) for f in pages], [head_of(f) for f in heads])), 100)
        for files, text_of in (pages, read), (heads, head_of):
            for f in files:
                wrong = {n for n in names_in(text_of(f)) if re.sub(r'^(\.\./)+', '', n) not in there}
                self.assertEqual(sorted(wrong - OTHERS), [], f'{f} names files that are not there')
        for f in self.files + self.outside:
            wrong = {n for n in names_in(read(f)) if n.startswith('lib/') and n not in there}
            self.assertEqual(sorted(wrong), [], f'{f} names files that are not there')

    def test_files_and_functions_of_lib_are_short(self):
        """A function is from { to } in the first column. Tables begin otherwise."""
        for f in self.files:
            text = read(f)
            self.assertLessEqual(text.count('\n'), MOST_LINES, f'{f}: lines')
            for found in re.finditer(r'^\{\n(?:(?!\}).*\n)*\}', text, re.M):
                self.assertLessEqual(found.group(0).count('\n') + 1, MOST_OF_A_FUNCTION,
                                     f"{f}:{text.count(chr(10), 0, found.start()) + 1}: lines of the function")

    def test_no_line_is_longer_than_120_columns(self):
        scripts = [f'{folder}/{f}' for folder in SCRIPTS for f in sorted(os.listdir(os.path.join(ROOT, folder)))
                   if f.endswith('.py')]
        for f in self.files + self.outside + sorted(sources('include')) + scripts + ['tests/rooms.py']:
            for number, line in enumerate(read(f).split('\n'), 1):
                self.assertLessEqual(len(line), 120, f'{f}:{number}')


if __name__ == '__main__':
    sys.exit(not unittest.main(exit=False).result.wasSuccessful())
