#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ctrl-C is heard in every blocking call of the Python package, with a second rank that never comes; what is left can be left."""
import os
import signal
import subprocess
import sys
import threading
import time

import numpy

import plait
import sentences

LIMIT = 20  # seconds; a hard limit: without an interrupt these wait for 10 minutes
SETTLES = 2.0  # seconds until the call has begun for sure

# What the other rank of a pair does before it calls no more, and what this rank then waits in.
FIRST = 'comm = plait.Comm.create(2, rank, uid, **OPTIONS)'
CALLS = {
    'create': (None, FIRST),
    'allreduce': (FIRST, 'comm.allreduce(x)'),
    'barrier': (FIRST, 'comm.barrier()'),
    'large broadcast': (FIRST, 'comm.broadcast(plait.zeros(1 << 20), root=1)'),
    'allgatherv': (FIRST, 'comm.allgatherv(x, [4, 4])'),
    'recv': (FIRST, 'comm.recv(x, 1)'),
    'send': (FIRST, 'comm.send(plait.zeros(1 << 22), 1)'),
    'request': (FIRST, 'comm.allreduce(x, wait=False).wait()'),
    'wait_any': (FIRST, 'plait.wait_any([comm.allreduce(x, wait=False)])'),
    'wait_all': (FIRST, 'plait.wait_all([comm.allreduce(x, wait=False), comm.recv(y, 1, wait=False)])'),
    'run again': (FIRST, 'comm.allreduce(x, persistent=True).run()'),
    'behind a request': (FIRST, 'comm.allreduce(x, wait=False); comm.allreduce(y)'),
    'progress thread': (FIRST.replace('**', 'progress=True, **'), 'comm.allreduce(x, wait=False).wait()'),
    'group': (FIRST, '''
with plait.group():
    comm.recv(x, 1)
    comm.allreduce(y)'''),
    'group of creations': (None, '''
with plait.group():
    comm = plait.Comm.create(2, rank, uid, **OPTIONS)'''),
    'split': (FIRST, 'comm.split(0)'),
    'split in a group': (FIRST, '''
with plait.group():
    comm.split(0)'''),
    'duplicate': (FIRST, 'comm.duplicate()'),
    'shrink': ('comm = plait.Comm.create(3, rank, uid, **OPTIONS)', 'comm.shrink([2])'),
    'destroy': (FIRST, 'comm.allreduce(x, wait=False); comm.destroy()'),
    'finalize': (FIRST, 'comm.allreduce(x, wait=False); comm.finalize()'),
    'suspend': (FIRST, 'comm.allreduce(x, wait=False); comm.suspend()'),
    'fusion': (FIRST, "comm.fusion({'w': x})"),
    'fusion wait': (FIRST + "\nf = comm.fusion({'w': x})", "f.ready('w'); f.wait('w')"),
    'fusion wait_all': (FIRST + "\nf = comm.fusion({'w': x})", "f.ready('w'); f.wait_all()"),
    'elastic': (FIRST, "comm.elastic(w, mode='sync3')"),
    'elastic exchange': (FIRST + "\ne = comm.elastic(w, mode='sync3')", 'e.exchange()'),
    'elastic serve': (FIRST + "\ne = comm.elastic(None if rank == 1 else w, mode='async', count=8, servers=1)", None),
    'optim': (FIRST + "\no = plait.Optim([plait.Part(w, w.copy())], comm=comm, ntensor=1)", 'o.step(0.1)'),
}

PROGRAM = '''
import signal, sys, time, numpy, plait
signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored, as of jobs in the background
rank, nrank, uid = int(sys.argv[1]), int(sys.argv[2]), bytes.fromhex(sys.argv[3])
before, call = sys.argv[4], sys.argv[5]
OPTIONS = {}
x, y, w = numpy.zeros(8), numpy.zeros(8), numpy.zeros(8, 'float32')
comm = None
exec(before)
if rank > 0:
    print('there', flush=True)
    time.sleep(600)
try:
    print('calls', flush=True)
    exec(call)
    print('returned', flush=True)
except KeyboardInterrupt:
    print('heard', flush=True)
if comm is not None:
    if comm._failure() is not None:  # else the call waited for another comm, and this one goes on
        try:
            comm.allreduce(y)
        except plait.Error:
            pass
    comm.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
print('left', flush=True)
'''


def ranks_of(before, call, nrank):
    uid = plait.unique_id().hex()
    return [subprocess.Popen([sys.executable, '-c', PROGRAM, str(rank), str(nrank), uid, before or '', call],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for rank in range(1 if before is None else nrank)]


def begin(name):
    before, call = CALLS[name]
    nrank = 3 if 'create(3' in (before or '') else 2
    if call is None:  # the server is the last rank: here it is the first process's
        before, call = before.replace('rank, uid', '1 - rank, uid').replace('rank == 1', 'rank == 0'), 'e.serve()'
    return name, ranks_of(before, call, nrank)


def end(name, ranks):
    try:
        said, why = ranks[0].communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        said, why = 'it did not hear', ''
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()
    return [] if said.split() == ['heard', 'left'] else [f'{name}: {said} {why}']


def ctrl_c_is_heard_in_every_blocking_call():
    names, wrong = list(CALLS), []
    for first in range(0, len(names), 4):
        begun = [begin(name) for name in names[first:first + 4]]
        for name, ranks in begun:
            assert ranks[0].stdout.readline() == 'calls\n', f'{name}: {ranks[0].communicate()}'
        time.sleep(SETTLES)
        for _, ranks in begun:
            ranks[0].send_signal(signal.SIGINT)
        for name, ranks in begun:
            wrong += end(name, ranks)
    assert not wrong, '\n'.join(wrong)


def handlers_that_raise_nothing_run_and_the_call_goes_on():
    heard, uid = [], plait.unique_id()
    came = threading.Event()

    def other():
        with plait.Comm.create(2, 1, uid) as comm:
            assert came.wait(LIMIT)
            comm.allreduce(numpy.ones(3))

    def handler(*_):
        heard.append(1)
        came.set()

    before = signal.signal(signal.SIGUSR1, handler)
    rank = threading.Thread(target=other)
    rank.start()
    try:
        with plait.Comm.create(2, 0, uid) as comm:
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1)).start()
            assert comm.allreduce(numpy.ones(3)).tolist() == [2, 2, 2]
    finally:
        rank.join()
        signal.signal(signal.SIGUSR1, before)
    assert heard == [1]


sentences.run([ctrl_c_is_heard_in_every_blocking_call, handlers_that_raise_nothing_run_and_the_call_goes_on])
