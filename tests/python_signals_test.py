#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ctrl-C is heard in every blocking call of the Python package, with a second rank that never comes; what is left can be left."""
import os
import select
import signal
import sys
import threading
import time
import traceback

import numpy

import plait
import sentences

LIMIT = 60  # seconds; a hard limit: without an interrupt these wait for 10 minutes
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

def call_and_hear(rank, nrank, uid, before, call):
    """A rank: the first calls, the others have come that far and call no more."""
    # It may be ignored, as of jobs in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    names = {'plait': plait, 'rank': rank, 'uid': uid, 'OPTIONS': {}, 'comm': None, 'x': numpy.zeros(8),
             'y': numpy.zeros(8), 'w': numpy.zeros(8, 'float32')}
    exec(before or '', names)  # pylint: disable=exec-used
    if rank > 0:
        time.sleep(600)
    try:
        print('calls', flush=True)
        exec(call, names)  # pylint: disable=exec-used
        os.write(1, b'returned\n')  # a line at once: messages go to the same pipe
    except KeyboardInterrupt:
        os.write(1, b'heard\n')
    comm = names['comm']
    if comm is not None:
        if comm._failure() is not None:  # else the call waited for another comm, and this one goes on
            try:
                comm.allreduce(names['y'])
            except plait.Error:
                pass
        comm.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    os.write(1, b'left\n')


class Rank:
    """A forked process: an interpreter of its own would begin with imports."""

    def __init__(self, *what):
        out, into = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.dup2(into, 1)
            os.dup2(into, 2)
            try:
                call_and_hear(*what)
            except BaseException:  # pylint: disable=broad-except
                traceback.print_exc()
            sys.stderr.flush()
            os._exit(0)
        os.close(into)
        self.out = open(out, encoding='utf-8')  # nothing follows the line that is read first

    def read(self, seconds):
        """What it says until it ends, or until then."""
        said, until = '', time.monotonic() + seconds
        while select.select([self.out], [], [], max(0, until - time.monotonic()))[0]:
            some = os.read(self.out.fileno(), 65536).decode()
            if some == '':
                break
            said += some
        return said

    def end(self):
        """It has ended, or is killed."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.out.close()


def ranks_of(before, call, nrank):
    uid = plait.unique_id()
    return [Rank(rank, nrank, uid, before, call) for rank in range(1 if before is None else nrank)]


def begin(name):
    before, call = CALLS[name]
    nrank = 3 if 'create(3' in (before or '') else 2
    if call is None:  # the server is the last rank: here it is the first process's
        before, call = before.replace('rank, uid', '1 - rank, uid').replace('rank == 1', 'rank == 0'), 'e.serve()'
    return name, ranks_of(before, call, nrank)


def end(name, ranks):
    said = ranks[0].read(LIMIT)
    for rank in ranks:
        rank.end()
    words = [line for line in said.splitlines() if line in ('returned', 'heard', 'left')]  # beside them: messages
    return [] if words == ['heard', 'left'] else [f'{name}: {said or "it did not hear"}']


def ctrl_c_is_heard_in_every_blocking_call():
    names, wrong = list(CALLS), []
    for first in range(0, len(names), 8):
        begun = [begin(name) for name in names[first:first + 8]]
        for name, ranks in begun:
            line = ranks[0].out.readline()
            assert line == 'calls\n', f'{name}: {line}{ranks[0].read(1)}'
        time.sleep(SETTLES)
        for _, ranks in begun:
            os.kill(ranks[0].pid, signal.SIGINT)
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
