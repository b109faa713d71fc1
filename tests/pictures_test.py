#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Pictures and pages: they are well-formed, show what the plans have, and a browser finds no fault with them.

Usage: pictures_test.py PLAIT_PLAN PLAIT_PERF [PLAIT_TRAIN]
"""
import collections
import html
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

PLAN, PERF = sys.argv[1:3]
TRAIN = sys.argv[3] if len(sys.argv) > 3 else None
SVG = '{http://www.w3.org/2000/svg}'
NAME = 'hosts <b> & "four" \' of\u0001 é'  # of a machine, from a file
SHOWN = 'hosts <b> & "four" \' of? é'
SHAPES = [(2, 4, 'ring'), (2, 4, 'halving-doubling'), (2, 4, 'hierarchy:direct'), (8, 8, 'halving-doubling'),
          (2, 3, 'broadcast:chain'), (2, 4, 'alltoall:direct')]
if os.environ.get('PLAIT_TEST_TIER') == 'light':
    SHAPES = SHAPES[2::3]


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=100)
    assert done.returncode == 0, f'{command}: exit status {done.returncode}: {done.stderr[-2000:]}'
    return done.stdout


def machine(folder, hosts, ranks, levels=()):
    """Its file. levels: more of them between hosts and the cluster."""
    path = folder / f'{hosts}x{ranks}.json'
    path.write_text(json.dumps({
        'name': NAME, 'copy': '10 GB/s', 'reduce': '8 GB/s',
        'levels': [{'name': 'host', 'children': ranks, 'links': 1, 'bandwidth': '20 GB/s', 'latency': '300 ns'},
                   *levels,
                   {'name': 'cluster', 'children': hosts, 'links': 2, 'bandwidth': '100 Gbit/s', 'latency': '2 us'}]}))
    return str(path)


def plans(spec, hosts, ranks):
    """Of all ranks' plans in the text form: sends as (rank, peer, blocks); copies, reductions; blocks of the vector."""
    sends, verbs, blocks = [], collections.Counter(), 0
    for line in run(PLAN, 'show', spec, '--nodes', f'{hosts}x{ranks}').splitlines():
        found = re.match(r'r(\d+) #\d+ (\w+) (.*)', line)
        if found is None:
            blocks = int(re.search(r'blocks (\d+)', line).group(1))
            continue
        rank, verb, rest = found.groups()
        verbs[verb] += 1
        if verb == 'send':
            first, last, peer = re.match(r'\w+\[(\d+)(?:\.\.(\d+))?\] to r(\d+)', rest).groups()
            sends.append((int(rank), int(peer), int(last or first) - int(first) + 1))
    return sends, verbs, blocks


class Pictures(unittest.TestCase):
    def setUp(self):
        self.room = tempfile.TemporaryDirectory()
        self.addCleanup(self.room.cleanup)
        self.folder = pathlib.Path(self.room.name)

    def draw(self, spec, path, picture, size='256K', *more):
        return xml.fromstring(run(PLAN, 'draw', spec, '--machine', path, '-b', size, '--picture', picture, *more))

    def predicted(self, spec, path, size='256K'):
        text = run(PLAN, 'simulate', spec, '--machine', path, '-b', size, '--json')
        return json.loads(text)['algorithms'][0]

    def each(self):
        for hosts, ranks, spec in SHAPES:
            path = machine(self.folder, hosts, ranks)
            yield spec, path, hosts, ranks, self.predicted(spec, path), plans(spec, hosts, ranks)

    def test_lines_and_marks_are_the_messages_and_reductions_of_the_plans(self):
        for spec, path, _, _, p, (sends, verbs, _) in self.each():
            svg = self.draw(spec, path, 'messages')
            groups = collections.Counter()
            for g in svg.iter(f'{SVG}g'):
                groups[g.get('class').split()[0]] += len(list(g))
            self.assertEqual(groups['messages'], len(sends) * p['slices'])
            self.assertEqual(groups['messages'], p['messages'])
            # A rank that reduces from several others in a row does it in one reduction.
            self.assertEqual(groups['reductions'], verbs['reduce'] * p['slices'] // (2 if 'hierarchy' in spec else 1))
            self.assertEqual(groups['copies'], verbs['copy'] * p['slices'])

    def test_arcs_are_the_pairs_that_send_and_their_width_is_the_bytes(self):
        for spec, path, hosts, ranks, _, (sends, _, _) in self.each():
            bytes_of = collections.Counter()
            for rank, peer, blocks in sends:
                bytes_of[rank, peer] += blocks
            svg = self.draw(spec, path, 'graph')
            arcs = [e for e in svg.iter(f'{SVG}path') if (e.get('class') or '').startswith('arc ')]
            self.assertEqual(len(arcs), len(bytes_of))
            self.assertEqual(len([e for e in svg.iter(f'{SVG}circle') if 'leaf' in e.get('class')]), hosts * ranks)
            most = max(bytes_of.values())
            widest = max(float(e.get('stroke-width')) for e in arcs)
            for e in arcs:
                a, b = re.match(r'(\d+) to (\d+):', e.find(f'{SVG}title').text).groups()
                width = max(0.5, widest * bytes_of[int(a), int(b)] / most)
                self.assertAlmostEqual(float(e.get('stroke-width')), width, delta=0.02)

    def test_links_carry_the_bytes_of_the_plans(self):
        for spec, path, hosts, ranks, p, (sends, _, blocks) in self.each():
            vector = spec.split(':')[0] not in ('alltoall',)
            block = 262144 // blocks if vector else 262144
            everything = sum(n for a, b, n in sends) * block
            between = sum(n for a, b, n in sends if a // ranks != b // ranks) * block
            svg = self.draw(spec, path, 'links')
            seen = {g.get('data-name'): float(g.get('data-bytes')) for g in svg.iter(f'{SVG}g') if g.get('data-name')}
            for name, expected in (('host, up', between), ('host, down', between), ('rank, up', everything)):
                self.assertAlmostEqual(seen.get(name, 0), expected, delta=0.02 * expected, msg=name)
            self.assertAlmostEqual(p['message_bytes'] / everything, 1, delta=0.02)

    def test_titles_say_algorithm_bytes_machine_time_and_bound(self):
        path = machine(self.folder, 2, 4)
        p = self.predicted('ring', path)
        for picture in 'messages', 'graph', 'links':
            texts = [e.text for e in self.draw('ring', path, picture).iter(f'{SVG}text')]
            self.assertTrue(any(SHOWN in t for t in texts), texts)
            self.assertTrue(any('ring: allreduce of 256 KiB, 8 ranks: ' in t for t in texts), texts)
            self.assertTrue(any(p['busiest'] in t and t.startswith('Bound ') for t in texts), texts)
            times = [float(t.split(': ')[2].split()[0]) for t in texts if t.startswith('ring: allreduce')]
            self.assertAlmostEqual(times[0], p['time_us'], delta=0.006 * p['time_us'])

    def test_many_ranks_are_thinned_and_it_says_so(self):
        rack = {'name': 'rack', 'children': 8, 'links': 8, 'bandwidth': '100 Gbit/s', 'latency': '1 us'}
        path = machine(self.folder, 6, 8, [rack])
        svg = self.draw('halving-doubling', path, 'messages', '4K')
        texts = ' '.join(e.text for e in svg.iter(f'{SVG}text'))
        self.assertIn('messages, of ranks 0 to 255', texts)
        drawn = int(re.search(r'Drawn: (\d+) of', texts).group(1))
        lines = sum(e.get('d').count('M') for g in svg.iter(f'{SVG}g') if g.get('class').startswith('messages')
                    for e in g)
        self.assertEqual(lines, drawn)
        graph = self.draw('halving-doubling', path, 'graph', '4K')
        self.assertEqual(len([e for e in graph.iter(f'{SVG}circle') if 'leaf' in e.get('class')]), 48)
        self.assertIn('inside hosts', ' '.join(e.text for e in graph.iter(f'{SVG}text')))

    def test_mistakes_are_named(self):
        path = machine(self.folder, 2, 4)
        for status, words, command in (
                (2, 'draw needs --machine', ['draw', 'ring']),
                (2, 'draw needs a spec', ['draw', '--machine', path]),
                (2, '--picture x: must be messages, graph or links', ['draw', 'ring', '--machine', path, '--picture', 'x']),
                (2, "no algorithm 'rong'", ['draw', 'rong', '--machine', path]),
                (2, '--picture has an effect only with draw', ['simulate', '--machine', path, '--picture', 'graph']),
                (2, '--report has an effect only with simulate', ['draw', 'ring', '--machine', path, '--report', 'x']),
                (2, '--report /nowhere/x: No such file', ['simulate', '--machine', path, '--report', '/nowhere/x']),
                (1, '--report /dev/full: cannot be written', ['simulate', '--machine', path, '--report', '/dev/full'])):
            done = subprocess.run([PLAN, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, status, command)
            self.assertIn(words, done.stderr)
            self.assertEqual(done.stderr.count('\n'), 1, done.stderr)

    def test_an_operation_of_nothing_and_one_rank_have_pictures(self):
        path = machine(self.folder, 2, 4)
        for picture in 'messages', 'graph', 'links':
            self.draw('ring', path, picture, '0')
            self.draw('ring', path, picture, '4K', '--ranks', '1')


class Pages(unittest.TestCase):
    def setUp(self):
        self.room = tempfile.TemporaryDirectory()
        self.addCleanup(self.room.cleanup)
        self.folder = pathlib.Path(self.room.name)

    def open(self, path):
        """The page's text as the browser shows it, and what it complains about."""
        browser = shutil.which('chromium') or shutil.which('chromium-browser')
        self.assertIsNotNone(browser, 'chromium is not installed; tools/setup installs it')
        done = subprocess.run([browser, '--headless', '--no-sandbox', '--disable-gpu', '--enable-logging=stderr',
                               f'--user-data-dir={self.folder}/browser', '--dump-dom', f'file://{path}'],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        faults = [line for line in done.stderr.splitlines() if 'CONSOLE' in line]
        return done.stdout, faults

    def cells(self, dom):
        return {html.unescape(c) for c in re.findall(r'<td[^>]*>([^<]*)</td>', dom)}

    def must_show(self, cells, value, what):
        """A number: the page has three decimals, the JSON nine digits."""
        near = [c for c in cells if re.fullmatch(r'-?[0-9.]+', c) and abs(float(c) - value) <= 6e-4 + 1e-8 * value]
        self.assertTrue(near, f'{what} is {value}; the page has {sorted(cells)}')

    def check_page(self, path):
        dom, faults = self.open(path)
        self.assertEqual(faults, [])
        self.assertNotIn('<script', dom)
        self.assertEqual(re.findall(r'(?:src|href)=|url\(|@import', dom), [], 'something is loaded')
        return dom

    def test_the_browser_tells_faults(self):
        path = self.folder / 'wrong.html'
        path.write_text('<!DOCTYPE html><script>nothing.there()</script>')
        self.assertEqual(len(self.open(path)[1]), 1)

    def test_the_report_of_a_prediction_has_the_numbers_of_its_json(self):
        page = self.folder / 'simulate.html'
        text = run(PLAN, 'simulate', '--machine', machine(self.folder, 2, 4), '-b', '256K', '--json', '--report', page)
        dom = self.check_page(page)
        self.assertIn(html.escape(SHOWN, quote=False), dom)
        document, cells = json.loads(text), self.cells(dom)
        self.assertGreater(len(document['algorithms']), 5)
        for a in document['algorithms']:
            for key, value in a.items():
                if isinstance(value, str):
                    self.assertIn(value, cells, f'{a["algorithm"]}: {key}')
                else:
                    self.must_show(cells, value, f'{a["algorithm"]}: {key}')
        self.assertEqual(dom.count('<figure>'), 4)
        self.assertIn('What to try', dom)

    def advice(self, path, *options):
        page = self.folder / 'advice.html'
        run(PLAN, 'simulate', *options, '--machine', path, '--report', page)
        return html.unescape(page.read_text()).partition('</h1>')[2].partition('<h2>Where the time')[0]

    def test_the_advice_of_a_report_fits_the_machine(self):
        path = machine(self.folder, 2, 4)
        text = self.advice(path, '-b', '256K')
        self.assertIn('it is the fastest of', text)
        self.assertIn("bandwidth of each host's links to the cluster", text)
        self.assertIn("bandwidth of each rank's links to the host", text)
        self.assertIn('half the latency and overhead between hosts of a cluster', text)
        text = self.advice(path, 'ring', '-b', '256K')
        self.assertNotIn('fastest', text)
        host = {'name': 'host', 'children': 8, 'bandwidth': '10 GB/s', 'memory': '20 GB/s', 'latency': 100}
        for processors in 7, 8:
            crowd = self.folder / 'crowd.json'
            crowd.write_text(json.dumps({'name': 'crowd', 'copy': '10 GB/s', 'reduce': '8 GB/s',
                                         'levels': [host | {'processors': processors}]}))
            text = self.advice(crowd, 'two-shot', '-b', '4M')
            self.assertEqual('twice the processors of each host' in text, processors < 8)

    def test_the_report_of_measurements_has_the_numbers_of_its_json(self):
        page, path = self.folder / 'perf.html', self.folder / 'perf.json'
        run(PERF, '--ranks', '2', '-b', '64', '-e', '64K', '-f', '32', '-n', '3', '-w', '1', '--rounds', '2',
            '--report', page, '-J', path)
        cells, document = self.cells(self.check_page(page)), json.loads(path.read_text())
        self.assertEqual(len(document['results']), 3)
        for row in document['results']:
            for place in 'out_of_place', 'in_place':
                self.assertIn(str(row['size']), cells)
                for key in 'time', 'alg_bw', 'bus_bw':
                    self.must_show(cells, row[place][key], f'{row["size"]} {place} {key}')
                for backend in row['plait'][place]['backends'].values():
                    for key in 'midmean_us', 'p99_us':
                        self.must_show(cells, backend[key], f'{row["size"]} {place} {key}')

    def test_plots_are_pictures_with_their_points(self):
        path = self.folder / 'perf.svg'
        run(PERF, '--ranks', '2', '-b', '64', '-e', '64K', '-f', '32', '-n', '3', '-w', '1', '--rounds', '2',
            '--plot', path)
        self.assertEqual(len(list(xml.parse(path).iter(f'{SVG}circle'))), 2 * 3)

    @unittest.skipIf(TRAIN is None, 'this build has no plait-train')
    def test_curves_of_training_have_a_point_for_each_line_of_the_log(self):
        for name in 'first', 'second & <last>':
            (self.folder / name).mkdir()
            lines = [{'event': 'step', 'position': 0.1 * k, 'loss': 2 - 0.1 * k, 'top1': None} for k in range(7)]
            lines += [{'event': 'epoch', 'position': 1, 'loss': 1.5, 'top1': 0.5}]
            (self.folder / name / 'log.jsonl').write_text(''.join(json.dumps(line) + '\n' for line in lines))
        run(TRAIN, 'plot', self.folder / 'first', self.folder / 'second & <last>', '--plot', self.folder / 'run.svg')
        svg = xml.parse(self.folder / 'run.svg')
        self.assertEqual(len(list(svg.iter(f'{SVG}circle'))), 2 * 2)  # tests, of accuracy and of loss
        curves = [e.get('d') for e in svg.iter(f'{SVG}path') if 'dashed' in e.get('class')]
        self.assertEqual(sorted(len(re.findall('[ML]', d)) for d in curves), [0, 0, 7, 7])


if __name__ == '__main__':
    sys.exit(not unittest.main(argv=sys.argv[:1], exit=False).result.wasSuccessful())
