#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""plait-plan simulate: steps, curves, sweeps, what-ifs and traces. Usage: forecast_tool_test.py PLAIT_PLAN PLAIT_PERF"""
import json
import os
import re
import subprocess
import sys
import tempfile

import sentences

PLAN, PERF = sys.argv[1:3]


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
    assert len(rows) == 11 and rows['per-tensor']['buckets'] == 161 and rows['threshold:all']['buckets'] == 1
    for r in rows.values():
        assert abs(r['efficiency'] - 1e5 / r['time_us']) < 1e-6 and abs(r['exposed'] + r['efficiency'] - 1) < 1e-6, r
    cuts = rows['computed']['cuts']
    assert cuts == sorted(set(cuts)) and len(cuts) == rows['computed']['buckets'] - 1 and 0 < cuts[0] < 161, cuts
    assert [name for name, r in rows.items() if 'cuts' in r] == ['computed']
    text = run('ring', '--ranks', '8', '--step', 'resnet50', '--samples', '640', '--layouts', 'computed')
    name = 'cuts:' + '+'.join(map(str, cuts))
    assert f"The layout computed, as --layouts and plait-train's --bucket take it: {name}.\n" in text, text
    again = results('ring', '--ranks', '8', '--step', 'resnet50', '--samples', '640', '--layouts', name)
    assert again[0]['layout'] == name and again[0]['time_us'] == rows['computed']['time_us'], again
    one = run('ring', '--ranks', '8', '--bytes', str(25557032 * 4), '--inplace', '--json')
    alone = json.loads(one)['algorithms'][0]['time_us']
    assert abs(rows['threshold:all']['time_us'] - 1e5 - alone) < 0.01 * alone


def event(phase, rank, time, name, **arguments):
    """Of a trace; time in microseconds."""
    return {'ph': phase, 'pid': rank, 'ts': time, 'dur': 0, 'name': name, 'args': arguments}


def start(rank, time):
    return event('X', rank, time, 'until the first gradient')


def mark(rank, tensor, time, elements=1000, of='float32'):
    return event('i', rank, time, f't{tensor}', tensor=tensor, elements=elements, type=of)


def of_trace(events, *arguments, status=0):
    """What --step prints of such a trace, an event for each line from the second on."""
    with tempfile.NamedTemporaryFile('w') as file:
        file.write('{"traceEvents":[\n' + ',\n'.join(json.dumps(e) for e in events) + '\n]}\n')
        file.flush()
        return run('ring', '--ranks', '8', '--step', file.name, '--layouts', 'per-tensor', *arguments, status=status)


def a_gradient_is_ready_on_the_slowest_rank_in_the_median_of_the_steps():
    steps = {0: [(0, 20, 60), (100, 140, 120), (200, 210, 300)],  # start, tensor 0, tensor 1
             1: [(5, 55, 45), (105, 115, 165), (205, 235, 245)]}  # another clock
    events = [e for rank, own in steps.items() for at, a, b in own
              for e in (start(rank, at), mark(rank, 1, b, 500), mark(rank, 0, a))]
    text = of_trace(events)
    # tensor 0: 50, 40, 30 after the start; tensor 1: 60, 60, 100
    assert '1500 elements in 2 tensors; a rank computes 0.060 ms in the median of 3 steps of 2 ranks' in text, text
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'trace.json')
        of_trace(events, '--trace', path)
        with open(path, encoding='utf-8') as file:
            assert [e['ts'] for e in json.load(file)['traceEvents'] if e['ph'] == 'i'] == [40, 60]
    # Of a step that is not whole the gradients that all ranks have count.
    text = of_trace(events + [start(0, 400), mark(0, 0, 401), start(1, 405), mark(1, 0, 406), mark(1, 1, 500, 500)])
    assert 'computes 0.060 ms in the median of 3 steps' in text, text


def a_predicted_step_is_a_trace_of_the_same_step():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'trace.json')
        rows = results('ring', '--ranks', '8', '--step', 'resnet50', '--layouts', 'ddp,per-tensor', '--trace', path)
        assert results('ring', '--ranks', '8', '--step', path, '--layouts', 'ddp,per-tensor') == rows
        with open(path, encoding='utf-8') as file:
            events = json.load(file)['traceEvents']
    names = {e['tid']: e['args']['name'] for e in events if e['name'] == 'thread_name'}
    on = {row: [(e['ts'], e['ts'] + e['dur']) for e in events if e['ph'] == 'X' and names[e['tid']] == row]
          for row in names.values()}
    (begin, end), = on['wait']
    assert len(on['transfer']) == rows[0]['buckets'] and abs(on['transfer'][-1][1] - rows[0]['time_us']) < 1e-3, on
    assert begin == on['compute'][-1][1] and abs((end - begin) / end - rows[0]['exposed']) < 1e-9


def gradients_of_a_trace_travel_as_they_did():
    """A trace of float32 gradients that travel as bfloat16 was predicted as if they travelled as float32."""
    events = [start(0, 0), mark(0, 0, 1, 10 ** 6), event('X', 0, 2, 'bucket 0', bytes=2 * 10 ** 6, type='bfloat16')]

    def rows(of, *arguments):
        return json.loads(of_trace(of, *arguments, '--json'))['results']

    half, whole = rows(events), rows(events, '--payload', 'float32')
    assert half != whole and half == rows(events, '--payload', 'bfloat16'), (half, whole)
    assert whole == rows(events[:2])
    assert 'gradients travel as bfloat16\n' in of_trace(events)
    assert 'gradients travel as float32\n' in of_trace(events, '--payload', 'float32')
    assert 'gradients travel as float32\n' in of_trace(events[:2])


def a_trace_of_plait_perf_can_be_read():
    with tempfile.TemporaryDirectory() as folder:
        tensors, path = os.path.join(folder, 'list.csv'), os.path.join(folder, 'trace.json')
        with open(tensors, 'w', encoding='utf-8') as file:
            file.write('id,name,elements,kind\n' + ''.join(f'{k},t,{1000 * (k + 1)},w\n' for k in range(5)))
        subprocess.run([PERF, 'fusion', '--ranks', '2', '--tensors', tensors, '--compute-ms', '5', '--layouts', 'ddp',
                        '--payload', 'float', '--gradients', 'buckets', '-n', '2', '--rounds', '1', '--timeline', path],
                       check=True, capture_output=True)
        text = run('ring', '--ranks', '8', '--step', path)
        with open(path, encoding='utf-8') as file:
            events = json.load(file)['traceEvents']
    starts = {e['pid']: e['ts'] for e in events if e['name'] == 'until the first gradient'}
    assert sorted(starts) == [0, 1]
    ready = [round(e['ts'] - starts[e['pid']], 3) for e in events if e['ph'] == 'i']
    assert len(ready) == 10 and max(ready) >= 5000  # plait-perf sleeps for so long
    found = f'15000 elements in 5 tensors; a rank computes {max(ready) / 1000:.3f} ms in the median of 1 step of 2 ranks'
    assert found in text, (found, text)


def every_model_can_be_read():
    for model, elements in (('alexnet', 61100840), ('vgg16', 138357544), ('gpt2', 124439808)):
        text = run('ring', '--ranks', '4', '--step', model, '--layouts', 'threshold:all')
        assert f'{elements} elements' in text, text


def a_curve_over_ranks():
    rows = results('ring', '--scale', '2-16', '--step', 'gpt2', '--batch', '1')
    assert [r['ranks'] for r in rows] == [2, 4, 8, 16]
    assert all(a['efficiency'] >= b['efficiency'] for a, b in zip(rows, rows[1:])), rows
    options = ['ring', '--scale', '2,16,4,8', '--step', 'gpt2', '--batch', '1']
    worth, text = json.loads(run(*options, '--json')), run(*options)
    above = max(r['ranks'] for r in worth['results'] if r['efficiency'] > 0.9)
    least = min(worth['results'], key=lambda r: r['time_us'] / r['ranks'])['ranks']
    assert (worth['worth_ranks'], worth['fastest_ranks']) == (above, least) == (4, 16), worth
    assert f'above 90 % up to {above} ranks; the time for each sample falls up to {least}.' in text, text
    assert len(results('ring', '--scale', '3,5', '--bytes', '1M')) == 2
    assert '\nallreduce of 1048576 bytes, 3 to 5 ranks\n' in run('ring', '--scale', '5,3', '--bytes', '1M')


def a_sweep_finds_the_winner_and_the_crossings():
    rows = results('--ranks', '16', '--sweep', '1K-1M')
    assert [r['bytes'] for r in rows] == [1 << s for s in range(10, 21, 2)]
    for r in rows:
        best = json.loads(run('--ranks', '16', '--bytes', str(r['bytes']), '--json'))['algorithms'][0]
        assert abs(best['time_us'] - r['time_us']) < 1e-3, (best, r)
    changes = sum(a['algorithm'] != b['algorithm'] for a, b in zip(rows, rows[1:]))
    text = run('--ranks', '16', '--sweep', '1K-1M')
    found = re.findall(r'^from about (\d+) bytes on: (\S+) instead of (\S+)$', text, re.MULTILINE)
    assert changes > 0 and len(found) == changes, text
    for size, algorithm, before in found:
        for at, best in ((int(size) // 4 * 4, algorithm), (int(int(size) * 0.96) // 4 * 4, before)):
            assert json.loads(run('--ranks', '16', '--bytes', str(at), '--json'))['algorithms'][0]['algorithm'] == best


def what_was_not_simulated_is_said():
    large = ['one-shot', 'two-shot']  # 65,280 messages at a time
    said = f'Not simulated, since that takes long: {", ".join(large)}.'
    with tempfile.NamedTemporaryFile('w') as step:
        step.write('{"traceEvents":[\n' + json.dumps(start(0, 0)) + ',\n' + json.dumps(mark(0, 0, 20)) + '\n]}\n')
        step.flush()
        for options in (['--bytes', '4K'], ['--sweep', '4K'], ['--what-if', 'copy=*2', '--bytes', '4K'],
                        ['--step', step.name, '--layouts', 'threshold:all']):
            assert said in run('--ranks', '256', *options), options
    text = run('--scale', '16,256', '--bytes', '4K')
    assert f'\nNot simulated at 256 ranks, since that takes long: {", ".join(large)}.\n' in text and 'at 16' not in text, text
    assert json.loads(run('--ranks', '256', '--bytes', '4K', '--json'))['not_simulated'] == large
    assert [r['not_simulated'] for r in results('--scale', '256,16', '--bytes', '4K')] == [large, []]
    assert 'Not simulated' not in run('ring', '--ranks', '256', '--bytes', '4K')


def the_question_is_part_of_the_json():
    of = json.loads(run('ring', '--ranks', '8', '--bytes', '1K', '--what-if', 'copy=2', '--placement', 'round-robin', '--json'))
    assert (of['bytes'], of['what_if'], of['placement']) == (1024, 'copy=2', 'round-robin'), of
    assert [r['bytes'] for r in of['results']] == [1024]


def what_would_take_minutes_is_refused_and_the_rest_shows_progress():
    with tempfile.NamedTemporaryFile('w', suffix='.json') as file:
        json.dump({'name': 'small cache', 'cache': 256,  # slices of 128 bytes
                   'levels': [{'name': 'host', 'children': 4, 'bandwidth': 10 ** 10, 'latency': 100}]}, file)
        file.flush()
        error = run('--machine', file.name, '--step', 'vgg16', status=1)
        assert 'every algorithm takes long to simulate; name one' in error, error
    arguments = [PLAN, 'simulate', 'ring', '--machine', 'abci', '--scale', '2,4', '--bytes', '1K']
    terminal, end = os.openpty()
    subprocess.run(arguments, stdout=subprocess.DEVNULL, stderr=end, check=True)
    shown = os.read(terminal, 4096).decode()
    os.close(terminal)
    os.close(end)
    assert 'ranks 2, 1 of 2' in shown and 'ranks 4, 2 of 2' in shown and shown.endswith('\x1b[K'), shown
    assert subprocess.run(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True).stderr == b''


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


def a_change_may_have_blanks_and_units():
    options = ['halving-doubling', '--ranks', '256', '--bytes', '1M', '--what-if']
    for same, as_this in (('host 3=/2, cluster.latency=*3', 'host 3=/2,cluster.latency=*3'),
                          (' rack.latency = 9 us ', 'rack.latency=9000'), ('rack.latency=*2', 'rack.latency=10us'),
                          ('rack.bandwidth=1 Gbit/s', 'rack.bandwidth=125e6'),
                          ('cluster.oversubscription=68', 'cluster.links=1'),  # 68 links of hosts
                          ('cluster.oversubscription=*24', 'cluster.links=1'), ('reduce = 1 GB/s', 'reduce=1e9')):
        a, b = (json.loads(run(*options, change, '--json')) for change in (same, as_this))
        assert a['results'][0]['what_if'] == b['results'][0]['what_if'], (same, a, b)
        assert [x['ratio'] for x in a['alone']] == [x['ratio'] for x in b['alone']], (a, b)
        assert all(x['change'].strip() == x['change'] for x in a['alone']), a
        assert a['results'][0]['what_if']['ratio'] > 1, a


def the_change_that_helps_most_is_named():
    options = ['ring', '--ranks', '16', '--bytes', '64M']
    changes = ['cluster.latency=/2', 'host.uplink=*2']
    both = json.loads(run(*options, '--what-if', ','.join(changes), '--json'))
    assert [a['change'] for a in both['alone']] == changes
    for alone in both['alone']:
        r, = results(*options, '--what-if', alone['change'])
        assert r['what_if']['ratio'] == alone['ratio'], (r, alone)
    assert run(*options, '--what-if', ','.join(changes)).endswith(f'{changes[1]} helps most.\n')
    assert run(*options, '--what-if', 'host.uplink=/2,host 0=/2').endswith('None of them helps.\n')
    assert 'alone' not in run(*options, '--what-if', changes[0])
    # Alone the first leaves no room for the ranks.
    changes = 'cluster.children=1,rack.children=*16'
    alone = json.loads(run('ring', '--ranks', '256', '--bytes', '1M', '--what-if', changes, '--json'))['alone']
    assert [a['change'] for a in alone] == ['rack.children=*16'], alone


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
            (['--what-if', 'cluster.uplink=2'], "cluster.uplink=2: cluster is the largest unit and has no uplink; "
             'rack.uplink changes the links of racks to it'),
            (['--what-if', 'rack.colour=2'], 'its fields are children, links, bandwidth, latency, overhead, eager, '
             'processors, memory, uplink, uplinks, oversubscription'),
            (['--what-if', 'rack.oversubscription=x'], 'must be a number from 0.01'),
            (['--what-if', 'host.oversubscription=2'], 'needs links in the level below'),
            (['--what-if', 'host.children=0'], 'host.children is 0'),
            (['--what-if', 'rank 5=*3'], 'leaves 300 %'), (['--what-if', 'host 3=2'], 'must be /FACTOR'),
            (['--placement', '/nowhere'], 'must be round-robin'), (['--step', 'lenet'], 'there is no such model'),
            (['--step', 'alexnet', '--layouts', 'dpp'], "'dpp' must be per-tensor"),
            (['--sweep', '0-4'], 'must be numbers from 1'), (['--scale', '3000'], 'must be numbers from 1 to'),
            (['--sweep', '4', '--step', 'alexnet'], 'does not go with'),
            (['--sweep', '4', '--trace', 'x'], 'is of one operation'),
            (['--report', 'x', '--step', 'alexnet'], 'one machine; leave out --step'),
            (['--report', 'x', '--what-if', 'copy=1'], 'leave out --what-if'),
            (['--report', 'x', '--sweep', '1K'], 'leave out --sweep'),
            (['--report', 'x', '--scale', '8'], 'leave out --scale'),
            (['--report', 'x', '--placement', 'round-robin'], 'leave out --placement'),
            (['-b', '1M', '--sweep', '1K'], '-b 1048576: --sweep has the sizes; leave one of them out'),
            (['--bytes', '4', '--step', 'alexnet'], '--bytes 4: --step has the sizes'),
            (['--bytes', '1'], '--bytes 1: must be a whole number of float32 elements, of 4 bytes each'),
            (['--bytes', str(2 ** 62)], 'must be at most 2^47 elements'),
            (['--sweep', '4,6'], '--sweep 4,6: 6 is no whole number of float32 elements'),
            (['--nodes', '4x2'], '--nodes 4x2: --machine says where ranks lie'),
            (['--levels', '4x2,2x4'], '--levels 4x2,2x4: --machine says where'),
            (['--coll', 'barrier'], '--coll barrier: it runs as an all-reduce of nothing; give --coll allreduce --bytes 0'),
            (['--step', 'alexnet', '--trace', '/no/such/file'], '--trace /no/such/file: No such file')):
        error = run('ring', *arguments, status=2)
        assert text in error and error.count('\n') == 1, (arguments, error)
    whole = [start(0, 0), mark(0, 0, 1), mark(0, 1, 2)]
    for events, text in (([], 'has no gradients'), (whole[1:], 'rank 0 has no event "until the first gradient"'),
                         (whole + [mark(0, 0, 3, 999)], 'line 5: event 3 says that tensor 0 has 999 float32; it had 1000'),
                         ([start(0, 0), mark(0, 0, 1, of='float5')], 'line 3: event 1 has no "type"'),
                         ([start(0, 0), mark(0, -1, 1)], 'line 3: event 1 has no "tensor" from 0 to'),
                         ([start(0, 'now')], 'line 2: event 0 has no "ts"'),
                         (whole[:1] + whole[2:], 'all 1 ranks have tensor 0'),
                         (whole + [start(1, 0), mark(1, 0, 1)], 'all 2 ranks have tensor 1')):
        error = of_trace(events, status=2)
        assert text in error and 'plait-train --trace' in error and error.count('\n') == 1, (events, error)
    assert 'leave out --batch' in of_trace(whole, '--batch', '3', status=2)


sentences.run([a_step_compares_layouts, a_gradient_is_ready_on_the_slowest_rank_in_the_median_of_the_steps,
               a_predicted_step_is_a_trace_of_the_same_step, gradients_of_a_trace_travel_as_they_did,
               a_trace_of_plait_perf_can_be_read, every_model_can_be_read, a_curve_over_ranks,
               a_sweep_finds_the_winner_and_the_crossings,
               what_was_not_simulated_is_said, the_question_is_part_of_the_json,
               what_would_take_minutes_is_refused_and_the_rest_shows_progress, a_what_if_is_beside_the_machine,
               a_change_may_have_blanks_and_units, the_change_that_helps_most_is_named,
               a_trace_has_every_message_and_no_overlap, mistakes_are_one_line])
