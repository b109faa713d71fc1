#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""plait-plan simulate: steps, curves, sweeps, what-ifs and traces. Usage: forecast_tool_test.py PLAIT_PLAN"""
import json
import os
import subprocess
import sys
import tempfile

import sentences

PLAN = sys.argv[1]


def run(*arguments, status=0):
    r = subprocess.run([PLAN, 'simulate', '--machine', 'abci', *arguments], capture_output=True, text=True)
    assert r.returncode == status, (arguments, r.returncode, r.stderr)
    return r.stdout if status == 0 else r.stderr


def results(*arguments):
    return json.loads(run(*arguments, '--json'))['results']


def a_step_compares_layouts():
    text = run('ring', '--ranks', '8', '--step', 'resnet50', '--samples', '640', '--layouts', 'threshold:all,ddp')
    assert '25557032 elements in 161 tensors; a rank computes 100.000 ms for 64 samples' in text, text
    rows = {r['layout']: r for r in results('ring', '--ranks', '8', '--step', 'resnet50', '--samples', '640')}
    assert len(rows) == 10 and rows['per-tensor']['buckets'] == 161 and rows['threshold:all']['buckets'] == 1
    for r in rows.values():
        assert abs(r['efficiency'] - 1e5 / r['time_us']) < 1e-6 and abs(r['exposed'] + r['efficiency'] - 1) < 1e-6, r
    one = run('ring', '--ranks', '8', '--bytes', str(25557032 * 4), '--inplace', '--json')
    alone = json.loads(one)['algorithms'][0]['time_us']
    assert abs(rows['threshold:all']['time_us'] - 1e5 - alone) < 0.01 * alone


def every_model_can_be_read():
    for model, elements in (('alexnet', 61100840), ('vgg16', 138357544), ('gpt2', 124439808)):
        text = run('ring', '--ranks', '4', '--step', model, '--layouts', 'threshold:all')
        assert f'{elements} elements' in text, text


def a_curve_over_ranks():
    rows = results('ring', '--scale', '2-16', '--step', 'gpt2', '--batch', '1')
    assert [r['ranks'] for r in rows] == ['2', '4', '8', '16']
    assert all(a['efficiency'] >= b['efficiency'] for a, b in zip(rows, rows[1:])), rows
    assert len(results('ring', '--scale', '3,5', '--bytes', '1M')) == 2


def a_sweep_finds_the_winner_and_the_crossings():
    rows = results('--ranks', '16', '--sweep', '1K-1M')
    assert [int(r['bytes']) for r in rows] == [1 << s for s in range(10, 21, 2)]
    for r in rows:
        best = json.loads(run('--ranks', '16', '--bytes', r['bytes'], '--json'))['algorithms'][0]
        assert abs(best['time_us'] - r['time_us']) < 1e-3, (best, r)
    changes = sum(a['algorithm'] != b['algorithm'] for a, b in zip(rows, rows[1:]))
    assert changes > 0 and run('--ranks', '16', '--sweep', '1K-1M').count('from about') == changes


def a_what_if_is_beside_the_machine():
    r, = results('ring', '--ranks', '16', '--bytes', '64M', '--what-if', 'host.uplink=/4')
    assert 1.5 < r['what_if']['ratio'] < 4.01 and abs(r['what_if']['time_us'] / r['time_us'] - r['what_if']['ratio']) < 1e-6
    r, = results('ring', '--ranks', '16', '--bytes', '64M', '--placement', 'round-robin')
    assert r['what_if']['ratio'] > 1
    for same in ('host.uplink=/1', 'host 100=/2', 'copy=*1'):
        r, = results('ring', '--ranks', '16', '--bytes', '1M', '--what-if', same)
        assert r['what_if']['ratio'] == 1, (same, r)
    step, = results('ring', '--ranks', '8', '--step', 'resnet50', '--layouts', 'ddp', '--what-if', 'rank 5=/2')
    assert 1.9 < step['what_if']['ratio'] < 2.1, step
    with tempfile.NamedTemporaryFile('w') as f:
        f.write(' '.join(str(r) for r in range(16)))
        f.flush()
        r, = results('ring', '--ranks', '16', '--placement', f.name)
        assert r['what_if']['ratio'] == 1


def a_trace_has_every_message_and_no_overlap():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'trace.json')
        shown = json.loads(run('ring', '--ranks', '6', '--bytes', '1M', '--trace', path, '--json'))['algorithms'][0]
        with open(path, encoding='utf-8') as file:
            events = json.load(file)['traceEvents']
    assert {e['pid'] for e in events} == set(range(6))
    slices = [e for e in events if e['ph'] == 'X']
    assert sum(e['name'].startswith('message to') for e in slices) == shown['messages'], shown
    assert any(e['name'] == 'reduce' for e in slices)
    tracks = {}
    for e in slices:
        tracks.setdefault((e['pid'], e['tid']), []).append((e['ts'], e['dur']))
    for track, on in tracks.items():
        on.sort()
        assert all(a + d <= b + 1e-5 for (a, d), (b, _) in zip(on, on[1:])), track
    assert abs(max(e['ts'] + e['dur'] for e in slices) - shown['time_us']) < 1e-3


def mistakes_are_one_line():
    for arguments, text in (
            (['--what-if', 'rack.uplinks'], 'must be LEVEL.FIELD=VALUE'),
            (['--what-if', 'foo.links=2'], "no level 'foo'"),
            (['--what-if', 'cluster.uplink=2'], "no field 'uplink'"),
            (['--what-if', 'host.children=0'], 'host.children is 0'),
            (['--what-if', 'rank 5=*3'], 'leaves 300 %'), (['--what-if', 'host 3=2'], 'must be /FACTOR'),
            (['--placement', '/nowhere'], 'must be round-robin'), (['--step', 'lenet'], 'there is no such model'),
            (['--step', 'alexnet', '--layouts', 'dpp'], "'dpp' must be per-tensor"),
            (['--sweep', '0-4'], 'must be numbers from 1'), (['--scale', '3000'], 'must be numbers from 1 to'),
            (['--sweep', '4', '--step', 'alexnet'], 'does not go with'),
            (['--sweep', '4', '--trace', 'x'], 'is of one operation')):
        error = run('ring', *arguments, status=2)
        assert text in error and error.count('\n') == 1, (arguments, error)


sentences.run([a_step_compares_layouts, every_model_can_be_read, a_curve_over_ranks,
               a_sweep_finds_the_winner_and_the_crossings, a_what_if_is_beside_the_machine,
               a_trace_has_every_message_and_no_overlap, mistakes_are_one_line])
