#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Plan files: the Python writer, its example, and the tools. Usage: plans_test.py PLAIT_PLAN PLAIT_INFO PLAIT_PERF SOURCE"""
import json
import os
import re
import subprocess
import sys
import tempfile

import sentences

PLAN, INFO, PERF, SOURCE = sys.argv[1:5]
sys.path.insert(0, os.path.join(SOURCE, 'python', 'plait'))  # the file alone, without the package
from plans import IN, OUT, TMP, Plans  # noqa: E402

ROOM = tempfile.TemporaryDirectory()


def path(name):
    return os.path.join(ROOM.name, name)


def run(*command, status=0, **environment):
    r = subprocess.run(command, capture_output=True, text=True, timeout=100, env={**os.environ, **environment})
    assert r.returncode == status, (command, r.returncode, r.stdout, r.stderr)
    return r.stderr if status else r.stdout


def check(plans, name, coll='allreduce'):
    plans.write(path(name + '.plan'))
    return run(PLAN, 'check', name, '--plans', path(name + '.plan'), '--coll', coll, '--ranks', str(plans.ranks),
               '--root', str(plans.root))


BUFFERS = {'in': IN, 'out': OUT, 'tmp': TMP}
STEP = re.compile(r'r\d+ #\d+ (\w+) (\w+\[[\d.]+\])(?: = (\w+\[[\d.]+\]))?(?:, (\w+\[[\d.]+\]))?(?: (?:to|from) r(\d+))?(?: block (\d+))?(?: lane (\d+))?(?: |$)')


def span(text):
    buffer, first, last = re.fullmatch(r'(\w+)\[(\d+)(?:\.\.(\d+))?\]', text).groups()
    return BUFFERS[buffer][int(first):int(last or first) + 1]


def write_again(text):
    """The moves of a file, through the writer, without their dependencies."""
    heads = re.findall(r'^plan 1 (\w+)(?: root (\d+))? rank (\d+) of (\d+), blocks (\d+)', text, re.M)
    coll, root, _, n, blocks = heads[0]
    plans = Plans(coll, ranks=int(n), root=int(root or 0), blocks=int(blocks) if coll in ('allreduce', 'broadcast', 'reduce') else None)
    for line in text.splitlines():
        if line.startswith('plan'):
            r = plans.rank(int(re.search(r' rank (\d+)', line).group(1)))
            continue
        verb, to, x, y, peer, block, lane = STEP.match(line).groups()
        block = span(to).first if block is None else int(block)
        if verb in ('send', 'recv'):
            getattr(r, verb)(int(peer), span(to), block=block, lane=int(lane or 0))
        elif verb == 'copy':
            r.copy(span(to), span(x), block=block)
        else:
            r.reduce(span(to), span(x), span(y), block=block)
    return plans.text()


def the_writer_derives_the_dependencies_that_the_builder_does():
    for spec in ('ring', 'torus:2x3', 'halving-doubling', 'two-shot', 'one-shot', 'double-tree', 'trees:3', 'binomial', 'reduce:binomial',
                 'broadcast:double-tree', 'allgather:ring', 'reduce_scatter:ring', 'alltoall:direct', 'gather:direct', 'scatter:direct'):
        text = run(PLAN, 'show', spec, '--ranks', '6')
        assert re.search('after', text) or 'direct' in spec, spec
        assert write_again(text) == text, (spec, write_again(text), text)
    one = Plans('allreduce', ranks=1, blocks=2)
    r = one.rank(0)
    r.copy(OUT[0:2], IN[0:2])  # step 0
    r.copy(TMP[1], OUT[1])  # 1 reads what 0 wrote
    r.copy(OUT[1], TMP[1])  # 2 writes what 0 wrote and 1 read, and reads what 1 wrote
    r.copy(TMP[0:2], OUT[0:2])  # 3 reads what 0 and 2 wrote, writes what 1 wrote and 2 read
    assert [line.partition('after ')[2] for line in one.text().splitlines()[1:]] == ['', '0', '0, 1', '0, 1, 2'], one.text()


def swapped_out(n, me):
    return [k for k in range(n) if k != me]


def every_collective_can_be_written():
    n, root = 3, 1
    for coll in 'broadcast', 'reduce', 'gather', 'scatter', 'allgather', 'reduce_scatter', 'alltoall':
        plans = Plans(coll, ranks=n, root=root if coll in ('broadcast', 'reduce', 'gather', 'scatter') else 0,
                      **({'blocks': 1} if coll in ('broadcast', 'reduce') else {}))
        for me in range(n):
            write_direct(plans.rank(me), coll, n, root, me)
        assert 'ok ' in check(plans, 'direct-own', coll), coll


def write_direct(r, coll, n, root, me):
    others = swapped_out(n, me)
    if coll == 'broadcast' and me == root:
        for k in others:
            r.send(k, IN[0])
        r.copy(OUT[0], IN[0])
    elif coll == 'broadcast':
        r.recv(root, OUT[0])
    elif coll in ('reduce', 'gather') and me != root:
        r.send(root, IN[0])
    elif coll == 'scatter' and me != root:
        r.recv(root, OUT[0])
    elif coll == 'gather':
        r.copy(OUT[me], IN[0])
        for k in others:
            r.recv(k, OUT[k])
    elif coll == 'scatter':
        for k in others:
            r.send(k, IN[k])
        r.copy(OUT[0], IN[me])
    elif coll == 'allgather':
        for k in others:
            r.send(k, IN[0])
            r.recv(k, OUT[k])
        r.copy(OUT[me], IN[0])
    elif coll == 'alltoall':
        for k in others:
            r.send(k, IN[k])
            r.recv(k, OUT[k])
        r.copy(OUT[me], IN[me])
    else:
        own = IN[me] if coll == 'reduce_scatter' else IN[0]
        for k in others:
            if coll == 'reduce_scatter':
                r.send(k, IN[k])
        for i, k in enumerate(others):
            r.recv(k, TMP[i], block=me if coll == 'reduce_scatter' else 0)
        block = me if coll == 'reduce_scatter' else 0
        terms = [TMP[0], TMP[1]]
        terms.insert(me, own)
        r.reduce(TMP[0], terms[0], terms[1], block=block)
        r.reduce(OUT[0], TMP[0], terms[2], block=block)


def what_the_writer_cannot_write_is_refused():
    plans = Plans('allreduce', ranks=2, blocks=4)
    r = plans.rank(0)
    for text, wrong in [
            ('rank 0 step 0 (send): TMP may hold any block', lambda: r.send(1, TMP[0])),
            ('the spans have different lengths', lambda: r.copy(OUT[0:2], IN[0:3])),
            ('in[2:2] must have a first slot and a later end', lambda: IN[2:2]),
            ('must be one of allreduce', lambda: Plans('barrier', ranks=2)),
            ('allreduce: give `blocks`', lambda: Plans('allreduce', ranks=2)),
            ('alltoall: leave out `blocks`', lambda: Plans('alltoall', ranks=2, blocks=4))]:
        try:
            wrong()
        except ValueError as e:
            assert text in str(e), e
        else:
            raise AssertionError(text)
    assert plans.text().count('\n') == 2


def the_tools_know_the_plans_of_a_file():
    text = run(PLAN, 'show', 'ring', '--ranks', '4')
    with open(path('four.plan'), 'w', encoding='ascii') as f:
        f.write(text)
    file = ['--plans', path('four.plan')]
    assert run(PLAN, 'show', 'four', *file) == text
    assert run(PLAN, 'show', 'four', PLAIT_PLANS=path('four.plan')) == text
    assert run(PLAN, 'list', *file).startswith('four\n    plans for 4 ranks\n    source: ' + path('four.plan'))
    assert '2 passed, 0 failed' in run(PLAN, 'check', 'four', *file)
    assert run(PLAN, 'export', 'four', *file) == run(PLAN, 'export', 'ring', '--ranks', '4')
    assert '\nfour ' in run(INFO, '--algorithms', PLAIT_PLANS=path('four.plan'))
    explained = run(INFO, '--explain', 'allreduce', '1M', '--ranks', '4', '--algo', 'four', PLAIT_PLANS=path('four.plan'))
    assert 'algorithm   four\n' in explained, explained
    assert 'does not fit 5 ranks; its plans are for 4 ranks' in run(PLAN, 'show', 'four', *file, '--ranks', '5', status=2)
    with open(path('bad.plan'), 'w', encoding='ascii') as f:
        f.write(text.replace('recv', 'receive', 1))
    assert f"PLAIT_PLANS: {path('bad.plan')}:3: 'receive' is no verb" in run(PLAN, 'list', '--plans', path('bad.plan'), status=2)


def time(machine_and_change, *spec):
    text = run(PLAN, 'simulate', *spec, *machine_and_change, '--ranks', '32', '--bytes', '64M', '--json')
    return json.loads(text)['results'][0]['what_if']['time_us']


def example(name, *options):
    run(sys.executable, os.path.join(SOURCE, 'examples', 'slow_host.py'), *options, path(name + '.plan'))
    return ['--plans', path(name + '.plan')]


def the_example_is_faster_than_the_librarys_best_where_a_host_is_slow():
    where = ['--machine', 'minsky-32', '--what-if', 'host 0=/4']
    own, best = time(where, 'slow-host', *example('slow-host')), time(where)
    assert own < 0.65 * best, (own, best)
    assert 'slow-host' in run(PLAN, 'draw', 'slow-host', *example('slow-host'), '--machine', 'minsky-32', '--ranks', '32')


def the_example_adds_up_between_processes():
    for hosts, each in (2, 1), (3, 1), (4, 1), (2, 2), (3, 2):
        name = f'slow-{hosts}x{each}'
        example(name, '--hosts', str(hosts), '--each', str(each), '--slow', str(hosts // 2))
        out = run(PERF, '--ranks', str(hosts * each), '-b', '1K', '-e', '4M', '-f', '64', '-n', '2', '--guard', 'off',
                  PLAIT_PLANS=path(name + '.plan'), PLAIT_ALGO=name)
        assert '# Out of bounds values : 0 OK' in out, out


sentences.run([the_writer_derives_the_dependencies_that_the_builder_does, every_collective_can_be_written,
               what_the_writer_cannot_write_is_refused, the_tools_know_the_plans_of_a_file,
               the_example_is_faster_than_the_librarys_best_where_a_host_is_slow, the_example_adds_up_between_processes])
