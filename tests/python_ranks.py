# SPDX-License-Identifier: BSD-3-Clause
"""What tests of the Python package share: a function as every rank, in processes or threads, with a time limit."""
import multiprocessing
import re
import threading
import time

import numpy

import plait

NRANK = 4
LIMIT = 60  # seconds; a hard limit against hangs


class Died(Exception):
    """A rank's process ended without a result."""


def _outcome(body, rank, uid):
    try:
        return body(rank, uid)
    except Exception as error:  # pylint: disable=broad-except
        return error


def _in_process(body, rank, uid, pipe):
    pipe.send(_outcome(body, rank, uid))


def processes(nrank, body):
    """What body(rank, id) returned or raised on each rank; Died where the process died."""
    context, uid = multiprocessing.get_context('fork'), plait.unique_id()
    pipes, children = [], []
    for rank in range(nrank):
        mine, theirs = context.Pipe(duplex=False)
        child = context.Process(target=_in_process, args=(body, rank, uid, theirs))
        child.start()
        theirs.close()
        pipes.append(mine)
        children.append(child)
    until, outcomes = time.monotonic() + LIMIT, []
    for rank, (pipe, child) in enumerate(zip(pipes, children)):
        try:
            if not pipe.poll(max(0, until - time.monotonic())):
                raise AssertionError(f'rank {rank} has not ended after {LIMIT} s')
            outcomes.append(pipe.recv())
            child.join()
        except EOFError:
            child.join()
            outcomes.append(Died(child.exitcode))
        except AssertionError:
            for other in children:
                other.kill()
            raise
    return outcomes


def threads(nrank, body):
    """The same with a thread for each rank."""
    uid, outcomes = plait.unique_id(), [None] * nrank

    def in_thread(rank):
        outcomes[rank] = _outcome(body, rank, uid)

    ranks = [threading.Thread(target=in_thread, args=(rank,), daemon=True) for rank in range(nrank)]
    for thread in ranks:
        thread.start()
    until = time.monotonic() + LIMIT
    for rank, thread in enumerate(ranks):
        thread.join(max(0, until - time.monotonic()))
        assert not thread.is_alive(), f'rank {rank} has not ended after {LIMIT} s'
    return outcomes


def good(outcomes):
    """The results; an error of any rank is the test's."""
    for rank, outcome in enumerate(outcomes):
        if isinstance(outcome, Exception):
            raise AssertionError(f'rank {rank}: {type(outcome).__name__}: {outcome}') from outcome
    return outcomes


def both(body, nrank=NRANK):
    """As processes and as threads."""
    good(processes(nrank, body))
    good(threads(nrank, body))


def equal(got, expected):
    numpy.testing.assert_array_equal(got, expected)


def wrong(expected, text, function):
    """function() raises `expected` with a text like this."""
    try:
        function()
    except expected as error:
        assert re.search(text, str(error)), f'{error} does not say {text}'
    else:
        raise AssertionError(f'no {expected.__name__} that says {text}')
