#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ranks that MPICH's mpiexec has started meet by PMI. Usage: pmi_test.py PLAIT_PERF PLAIT_INFO

A stand-in speaks hydra's part of PMI-1. Where mpiexec.hydra is installed, it starts the same job.
"""
import os
import shutil
import socket
import subprocess
import sys
import threading

perf, info = sys.argv[1:]
JOB = [perf, '-b', '4', '-e', '1K', '-f', '16', '-n', '2', '-w', '1', '--rounds', '1', '--guard', 'off']
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(('PLAIT_', 'PMI', 'OMPI', 'SLURM', 'RANK', 'WORLD'))}


class Hydra:
    """mpiexec with n processes, on one host or each on its own; replies: what it answers to a command instead."""

    def __init__(self, n, local=None, replies=None):
        self.n, self.local, self.replies = n, local or n, replies or {}
        self.keys, self.lock, self.waiting, self.finalized = {}, threading.Lock(), [], 0

    def serve(self, end):
        for line in end.makefile('r'):
            words = dict(w.split('=', 1) for w in line.split())
            command = words['cmd']
            with self.lock:
                if command in self.replies:
                    end.sendall(self.replies[command].encode())
                elif command == 'init':
                    end.sendall(b'cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n')
                elif command == 'get_my_kvsname':
                    end.sendall(b'cmd=my_kvsname kvsname=kvs_1_0_2_host\n')
                elif command == 'put':
                    assert len(words['value']) < 1024 and len(words['key']) < 64, line
                    self.keys[words['key']] = words['value']
                    end.sendall(b'cmd=put_result rc=0 msg=success\n')
                elif command == 'get':
                    end.sendall(f'cmd=get_result rc=0 msg=success value={self.keys[words["key"]]}\n'.encode())
                elif command == 'barrier_in':
                    self.waiting.append(end)
                    if len(self.waiting) == self.n:
                        for other in self.waiting:
                            other.sendall(b'cmd=barrier_out\n')
                        self.waiting = []
                elif command == 'finalize':
                    self.finalized += 1
                    end.sendall(b'cmd=finalize_ack\n')
                    return
                else:
                    raise AssertionError(line)

    def run(self, command, started=None, **settings):
        """(exit status, output) of each rank; started: so many of the n ranks come."""
        ranks, threads = [], []
        for rank in range(self.n if started is None else started):
            own, theirs = socket.socketpair()
            environment = dict(CLEAN, PMI_FD=str(theirs.fileno()), PMI_RANK=str(rank), PMI_SIZE=str(self.n),
                               MPI_LOCALRANKID=str(rank % self.local), MPI_LOCALNRANKS=str(self.local), **settings)
            ranks.append(subprocess.Popen(command, env=environment, pass_fds=[theirs.fileno()], text=True,
                                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
            theirs.close()
            threads.append(threading.Thread(target=self.serve, args=[own], daemon=True))
            threads[-1].start()
        ended = [(r.communicate(timeout=60)[0], r.returncode) for r in ranks]
        for thread in threads:
            thread.join(10)
        return [(status, text) for text, status in ended]


def run(command, environment):
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)


def ranks_meet():
    for n, local in ((2, None), (3, None), (2, 1)):  # the last as if on two hosts, over TCP
        hydra = Hydra(n, local)
        ended = hydra.run(JOB, PLAIT_FOR_TESTS='1')
        assert all(status == 0 for status, _ in ended), ended
        assert 'Collective test concluded' in ended[0][1] and f'Rank {n - 1:2} ' in ended[0][1], ended[0][1]
        assert hydra.finalized == n, 'without it mpiexec takes the end of a rank for a crash'


def a_rank_that_never_comes_is_an_error():
    for status, text in Hydra(3).run([info, '--peers'], started=2, PLAIT_TIMEOUT='1'):
        assert status != 0 and 'does not answer in time; has every rank called?' in text and 'mpich' in text, text


def answers_that_are_none_are_errors():
    for reply, wanted in (({'init': 'cmd=no\n'}, 'answers something else'),
                          ({'get_my_kvsname': 'cmd=my_kvsname\n'}, 'lacks something'),
                          ({'get': 'cmd=get_result rc=0 value=00\n'}, 'another version of Plait'),
                          ({'put': 'cmd=put_result rc=-1\n', 'barrier_in': 'x' * 2000}, 'too long')):
        texts = [text for _, text in Hydra(2, replies=reply).run([info, '--peers'], PLAIT_TIMEOUT='2')]
        assert any(wanted in text for text in texts), (wanted, texts)


def no_socket_is_an_error():
    environment = dict(CLEAN, PMI_RANK='0', PMI_SIZE='2', MPI_LOCALRANKID='0', MPI_LOCALNRANKS='2')
    for fd in (None, '', 'x', '-1', '999'):
        wanted = 'PMI_FD cannot be written' if fd == '999' else 'PMI_FD is not set'
        done = run([info, '--peers'], environment if fd is None else dict(environment, PMI_FD=fd))
        assert done.returncode != 0 and wanted in done.stdout, (fd, done.stdout)
        assert 'set RANK, WORLD_SIZE' in done.stdout, done.stdout


def mpiexec_of_mpich_starts_ranks():
    mpiexec = shutil.which('mpiexec.hydra')
    if mpiexec is None:
        print('not run with the real one: no mpiexec.hydra')
        return
    done = run([mpiexec, '-n', '3', *JOB], CLEAN)
    assert done.returncode == 0 and 'Rank  2 ' in done.stdout and 'BAD TERMINATION' not in done.stdout, done.stdout


for test in (ranks_meet, a_rank_that_never_comes_is_an_error, answers_that_are_none_are_errors, no_socket_is_an_error,
             mpiexec_of_mpich_starts_ranks):
    print(f'[ RUN      ] {test.__name__}', flush=True)
    test()
    print(f'[       OK ] {test.__name__}')
