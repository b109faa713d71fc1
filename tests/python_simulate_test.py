#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The Python package: predictions. Usage: python_simulate_test.py PLAIT_PLAN SOURCE_FOLDER"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import plait
import sentences
from python_ranks import wrong

PLAN, source = sys.argv[1], pathlib.Path(sys.argv[2])
MS = 1e-3
STAR = {'name': 'star', 'cache': 1 << 40,
        'levels': [{'name': 'cluster', 'children': 4, 'links': 1, 'bandwidth': 1e9, 'latency': 5000}]}


def star(**fields):
    return {**STAR, 'levels': [{**STAR['levels'][0], **fields}]}


def of_the_tool(machine, spec, *arguments):
    text = subprocess.run([PLAN, 'simulate', spec, '--machine', str(machine), '--json', *arguments], check=True,
                          capture_output=True, text=True).stdout
    return json.loads(text)['algorithms'][0]


def equal(p, row):
    """A prediction is plait-plan's, which prints 9 digits."""
    times = {'time_us': p.time, 'bound_us': p.bound, **{f'{k}_us': v for k, v in p.path._asdict().items()}}
    for key, seconds in times.items():
        assert abs(1e6 * seconds - row[key]) <= 1e-8 * row['time_us'], (key, seconds, row)
    others = {'busiest': p.busiest, 'messages': p.messages, 'message_bytes': p.bytes, 'slices': p.slices}
    assert others == {key: row[key] for key in others}, (others, row)


def predictions_are_the_tool_s_on_every_machine_file():
    files = sorted((source / 'tools/machines').glob('*.json'))
    assert len(files) >= 6, files
    for file in files:
        machine = plait.Machine(file)
        for spec, ranks, nbytes in (('ring', 12, 1 << 20), ('halving-doubling', 16, 4096)):
            p = plait.simulate(machine, spec, ranks=ranks, nbytes=nbytes)
            equal(p, of_the_tool(file, spec, '--ranks', str(ranks), '--bytes', str(nbytes)))
        p = plait.simulate(machine, 'one-shot', ranks=4, inplace=True)
        equal(p, of_the_tool(file, 'one-shot', '--ranks', '4', '--inplace'))
    p = plait.simulate(plait.Machine(files[0]), 'binomial', 'broadcast', 16, 4096, root=3)
    equal(p, of_the_tool(files[0], 'broadcast:binomial', '--ranks', '16', '--bytes', '4096', '--root', '3'))


def fields_are_those_of_docs_predict():
    """The page's example has oversubscription and slow links."""
    text, = re.findall(r'^```json\n(.*?)^```', (source / 'docs/predict.md').read_text(encoding='utf-8'), re.DOTALL | re.M)
    odd = {**json.loads(text), 'cache': '1.5 MiB', 'slow': [{'rank': 5, 'percent': 10}, {'links': 'host 3', 'percent': 5}]}
    odd['levels'][1].update(links=3, bandwidth='1.9 GB/s', overhead='2.5ns', eager=100)
    odd['levels'][2].update(oversubscription=2.5, bandwidth='7 Gbit/s')
    odd['slow'].append({'links': 'rack 1', 'percent': 29})
    for description in json.loads(text), odd:
        with tempfile.NamedTemporaryFile('w', suffix='.json') as file:
            json.dump(description, file)
            file.flush()
            row = of_the_tool(file.name, 'alltoall:direct', '--ranks', '16', '--bytes', '1048576')
            equal(plait.simulate(plait.Machine(file.name), 'direct', 'alltoall', nbytes=1 << 20), row)
        equal(plait.simulate(plait.Machine(description), 'direct', 'alltoall', nbytes=1 << 20), row)


def a_saved_machine_is_loaded_as_itself():
    machine = plait.Machine({**star(about='a guess'), 'about': 'drawn', 'slow': [{'rank': 3, 'percent': 50}]})
    with tempfile.NamedTemporaryFile(suffix='.json') as file:
        machine.save(file.name)
        text = json.load(file)
        assert (text['about'], text['levels'][0]['about']) == ('drawn', 'a guess'), text
        again = plait.Machine(pathlib.Path(file.name))
        again.save(file.name)
        file.seek(0)
        assert json.load(file) == text
    assert plait.simulate(again, 'ring', nbytes=40000) == plait.simulate(machine, 'ring', nbytes=40000)


def times_are_the_formula_s_and_places_matter():
    assert plait.Machine(STAR).ranks == 4 and plait.Machine(STAR).name == 'star'
    p = plait.simulate(plait.Machine(STAR), 'ring', nbytes=40000)
    assert abs(p.time - 6 * (5e-6 + 10e-6)) < 1e-9 and abs(sum(p.path) - p.time) < 1e-12, p
    two = plait.Machine({**STAR, 'levels': [dict(STAR['levels'][0], name='rack', children=2),
                                            dict(STAR['levels'][0], children=2, bandwidth='100 MB/s')]})
    near, far = (plait.simulate(two, 'ring', nbytes=1 << 20, place=place) for place in ([0, 1, 2, 3], [0, 2, 1, 3]))
    assert far.time > 1.5 * near.time, (near, far)


def a_changed_machine_is_the_tool_s_what_if():
    file = source / 'tools/machines/abci.json'
    machine = plait.Machine(file)
    p = plait.simulate(machine, 'ring', ranks=16, nbytes=1 << 20)
    for changes in 'host.uplink=/4', 'host.latency=*3,host.bandwidth=1 GB/s', 'rank 5=/2,host 1=*0.5', 'rank 3 links=/8':
        text = subprocess.run([PLAN, 'simulate', 'ring', '--machine', str(file), '--ranks', '16', '--bytes', '1M', '--json',
                               '--what-if', changes], check=True, capture_output=True, text=True).stdout
        other, row = plait.simulate(machine.changed(changes), 'ring', ranks=16, nbytes=1 << 20), json.loads(text)['results'][0]
        assert abs(1e6 * other.time - row['what_if']['time_us']) <= 1e-8 * row['what_if']['time_us'], (other, row)
        assert other.time > p.time, (changes, other.time, p.time)
    assert plait.simulate(machine, 'ring', ranks=16, nbytes=1 << 20) == p  # it is as it was


def events_and_uses_are_in_order():
    machine = plait.Machine(STAR)
    p = plait.simulate(machine, 'ring', nbytes=40000, events=True, uses=True)
    assert sum(e.kind == 'transfer' for e in p.events) == p.messages == 4 * 6
    assert sum(e.bytes for e in p.events if e.kind == 'transfer') == p.bytes
    assert [e.end for e in p.events] == sorted(e.end for e in p.events) and p.events[-1].end == p.time
    first = next(e for e in p.events if e.kind == 'transfer')
    assert (first.start, round(first.end, 12), first.peer) == (0, 15e-6, (first.rank + 1) % 4), first
    assert {u.resource for u in p.uses} <= set(machine.resources) and len(machine.resources) == 8, machine.resources
    assert max(u.rate for u in p.uses) == 1e9 == p.uses[0].capacity
    assert plait.simulate(machine, 'ring', nbytes=40000)[:7] == p[:7] and not plait.simulate(machine, 'ring').events


def a_forecast_has_the_fastest():
    machine = plait.Machine(STAR)
    forecast = plait.Forecast(machine)
    assert {'ring', 'halving-doubling'} <= set(forecast.algorithms), forecast.algorithms
    for nbytes in 64, 1 << 20:
        times = {a: forecast.time(a, nbytes).time for a in forecast.algorithms}
        best, p = forecast.fastest(nbytes)
        assert p.time == times[best] == min(times.values()), (best, times)
        assert p == plait.simulate(machine, best, nbytes=nbytes)
    assert plait.Forecast(machine, algorithms=['ring']).algorithms == ['ring']


def steps_are_buckets_one_after_the_other():
    forecast = plait.Forecast(plait.Machine(STAR), algorithms=['ring'])
    sizes, ready = [250000, 16, 500000, 1000000], [10 * MS, 11 * MS, 14 * MS, 20 * MS]
    s = forecast.step(sizes, ready, 20 * MS, layout=0)
    assert [(b.first, b.ntensor, b.algorithm) for b in s.buckets] == [(k, 1, 'ring') for k in range(4)]
    assert s.bytes == sum(b.bytes for b in s.buckets) and abs(s.time - s.compute - s.exposed) < 1e-12
    assert s.time == s.buckets[-1].end and s.compute == 20 * MS
    alone = forecast.fastest(s.buckets[-1].bytes)[1].time
    assert s.buckets[-1].begin == 20 * MS and abs(s.exposed - alone) < 1e-11, s
    one = forecast.step(sizes, ready, 20 * MS, layout=1 << 40, payload='float16')
    cuts, whole = forecast.cuts(sizes, ready), forecast.step(sizes, ready, 20 * MS, layout=1 << 40)
    found = forecast.step(sizes, ready, 20 * MS, layout=cuts)
    assert cuts and len(found.buckets) == len(cuts) + 1 and found.time <= 1.005 * min(s.time, whole.time), (cuts, found)
    assert len(one.buckets) == 1 and abs(2 * one.bytes - s.bytes) < 1024, one
    assert plait.training_ready([1, 2], [3, 4], 10) == [1.0, 0.7]


def what_is_wrong_is_named():
    machine, arg = plait.Machine(STAR), plait.ArgError
    wrong(arg, r'cluster.children is 0; it must be 1 to', lambda: plait.Machine(star(children=0)))
    wrong(arg, r"level 'levels\[0\]' has no field 'lanes'", lambda: plait.Machine(star(lanes=2)))
    wrong(arg, r"levels\[0\].latency=5 KiB: the value must be nanoseconds", lambda: plait.Machine(star(latency='5 KiB')))
    wrong(arg, r'links=4294967296: 4294967296 is too large', lambda: plait.Machine(star(links=1 << 32)))
    wrong(arg, r'links=True: the value must be a whole', lambda: plait.Machine(star(links=True)))
    wrong(arg, r'bandwidth=nan: the value must be bytes per second', lambda: plait.Machine(star(bandwidth=float('nan'))))
    wrong(arg, r"levels\[0\] has no 'latency'", lambda: plait.Machine({**STAR, 'levels': [{'name': 'a', 'children': 1}]}))
    wrong(arg, 'text of 1 to 23 bytes', lambda: plait.Machine(star(name='a' * 24)))
    wrong(arg, 'list of at most 8', lambda: plait.Machine({**STAR, 'levels': STAR['levels'] * 9}))
    wrong(arg, 'nlevel is 0', lambda: plait.Machine({**STAR, 'levels': []}))
    wrong(arg, 'needs links in the level below', lambda: plait.Machine(star(oversubscription=2)))
    wrong(arg, 'either "rank": a number', lambda: plait.Machine({**STAR, 'slow': [{'percent': 2}]}))
    wrong(arg, 'host 3 links=/1: must be .rank N. or', lambda: plait.Machine({**STAR, 'slow': [{'links': 'host 3', 'percent': 2}]}))
    wrong(arg, 'it must be a number, or one with', lambda: plait.Machine(star(overhead='*2')))
    wrong(arg, 'leaves 300 %', lambda: machine.changed('rank 1=*3'))
    wrong(arg, 'children is 0', lambda: machine.changed('cluster.children=0'))
    wrong(arg, 'slow.percent is 0', lambda: plait.Machine({**STAR, 'slow': [{'rank': 3, 'percent': 0}]}))
    wrong(TypeError, 'must be a dict', lambda: plait.Machine([]))
    with tempfile.NamedTemporaryFile('w') as file:
        wrong(arg, file.name + ', line 1: ', lambda: plait.Machine(file.name))
    wrong(plait.SystemError, '/nowhere/m.json: No such file', lambda: plait.Machine('/nowhere/m.json'))
    wrong(plait.ConfigError, 'rings', lambda: plait.simulate(machine, 'rings'))
    wrong(arg, "coll is 'allsum'", lambda: plait.simulate(machine, 'ring', 'allsum'))
    wrong(arg, '5 ranks, but machine .star. has room for 4', lambda: plait.simulate(machine, 'ring', ranks=5))
    wrong(arg, 'ranks is -1', lambda: plait.simulate(machine, 'ring', ranks=-1))
    wrong(arg, r'place\[1\] is 0', lambda: plait.simulate(machine, 'ring', place=[0, 0, 1, 2]))
    wrong(arg, 'must be 4 places', lambda: plait.simulate(machine, 'ring', place=[0]))
    wrong(arg, 'nbytes is 7', lambda: plait.simulate(machine, 'ring', nbytes=7))
    wrong(TypeError, 'must be a plait.Machine', lambda: plait.simulate(STAR, 'ring'))
    wrong(plait.ConfigError, 'rings', lambda: plait.Forecast(machine, algorithms=['rings']))
    forecast = plait.Forecast(machine, algorithms=['ring'])
    wrong(arg, 'must be one of ring', lambda: forecast.time('torus', 4))
    wrong(arg, 'tensor', lambda: forecast.step([], [], 1))
    wrong(arg, 'ready', lambda: forecast.step([4], [2.0], 1))
    wrong(arg, 'cuts: there are 1 sizes, but 2 ready', lambda: forecast.cuts([4], [1, 2]))
    wrong(arg, "payload is 'half a float'", lambda: forecast.step([4], [1], 1, payload='half a float'))
    wrong(arg, 'rate', lambda: plait.training_ready([1], [1], 0))


sentences.run([predictions_are_the_tool_s_on_every_machine_file, fields_are_those_of_docs_predict,
               a_saved_machine_is_loaded_as_itself, times_are_the_formula_s_and_places_matter, a_changed_machine_is_the_tool_s_what_if, events_and_uses_are_in_order, a_forecast_has_the_fastest,
               steps_are_buckets_one_after_the_other, what_is_wrong_is_named])
