#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every command that a page shows runs. Usage: pages_test.py SOURCE_FOLDER BUILD_FOLDER

Commands are the lines of ```sh fences, indented lines (explanations follow after two blanks), and code spans, where
they begin with a program of ours or of a launcher. They run as they stand, but for fewer iterations, sizes and steps.
Those that cannot run here are listed below with the reason; a reason that fits no command is an error.
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

source, build = (pathlib.Path(p).resolve() for p in sys.argv[1:])
OURS = ('plait-info', 'plait-plan', 'plait-perf', 'plait-hosts', 'plait-train')
BEGINS = re.compile(r'(?:[A-Z_]+=\S+ )*(?:\./|build/\w+/(?:tools|bench|train|tests)/)?'
                    r'(plait-\w+|tools/\w+|meson|ninja|cc|mpirun|torchrun|srun|sudo|pip|python3?|LAUNCHER|kubectl|make|'
                    r'campaign\w*) ')

# What stands for what a user has.
PLACES = [('/data/imagenet --model resnet50 --batch 1024', 'images --model resnet20 --batch 8'),
          ('/usr/local/share/plait/', f'{source}/bench/data/'), ('FOLDER', 'images'),
          ('DATA --resume RUN', 'images --resume first'),
          ('-- COMMAND', '-- plait-info'), ('./program', 'plait-info'), ('build/release/tools/', ''),
          ('build/release/', f'{build}/'), ('python3 examples/', f'{sys.executable} {source}/examples/'),
          ('--peer ...', '--peer openmpi:ob1'),
          ('check NAME', 'check ring'), ('check SPEC', 'check ring'), ('--ranks N', '--ranks 8')]
# A launcher that is not here, or has no other hosts, is Open MPI's on this one.
LAUNCHERS = re.compile(r'^(LAUNCHER|mpirun( -H \S+)?( --bind-to none)?( -n \d+)?|'
                       r'srun( -N \d+)?( --ntasks-per-node \d+)?|'
                       r'torchrun( --(nnodes|nproc-per-node|rdzv-backend|rdzv-endpoint) \S+| --no-python)*( --)?)'
                       r' (?=plait-)')
NOT_HERE = [
    (r'^(\./)?tools/(demo|check|memcheck|analyze|fuzz|nvcc|setup)\b', 'installs packages, or runs for minutes'),
    (r'^(sudo|meson|ninja|pip|make)\b', 'builds or installs: tools/setup, tools/check and install_test do'),
    (r'sum\.c|\./sum\b', 'examples_test.py runs the program of README.md'),
    (r'^build/\w+/tests/', 'long runs of the tests'),
    (r'^kubectl', 'needs a cluster'),
    (r'\bPID\b|\bHOST\b', 'needs a job: dump_test and hosts_test run it'),
    (r'\bimport torch|from safetensors', 'needs PyTorch'),
    (r'--peer .*\bddp\b', 'needs PyTorch: perf_test runs it where it is'),
    (r'--make-secret', 'writes into the home folder: secrets_test runs it'),
    (r'build/all_reduce_perf', 'needs GPUs: tools/gpu-check runs it'),
    (r'--coll all -r 1', 'perf_test measures every collective'),
    (r'^plait-(perf fusion|perf --overlap|info --explain)$', 'a part of a command'),
]
ENDS = {'--cut 2:1': 1}  # the others end with 0


def commands_of(page):
    text = page.read_text(encoding='utf-8')
    for fence in re.findall(r'^```sh\n(.*?)^```', text, re.DOTALL | re.MULTILINE):
        yield from fence.replace('\\\n', ' ').splitlines()
    text = re.sub(r'^```.*?^```', '', text, flags=re.DOTALL | re.MULTILINE)
    for line in re.findall(r'^    (\S.*)$', text, re.MULTILINE):
        yield re.split(r'\s{2,}', line)[0]
    yield from re.findall(r'`((?:LAUNCHER |[A-Z_]+=\S+ )*plait-\w+ [^`\n]+)`', text)


def shorter(command):
    """The same with little to do."""
    if re.search(r'plait-perf (fusion|elastic)', command):
        return command + ' -n 1 --rounds 1' + (' --bytes 64K --compute-ms 1' if 'elastic' in command else '')
    if 'plait-perf' in command and '--cut' not in command:
        return command + ' -n 1 -w 0 --rounds 1' + ('' if '--tensors' in command else ' -b 1K -e 16K -f 16')
    if 'plait-train make-data' in command:
        return command + ' --classes 2 --train-images 16 --val-images 4'
    if re.search(r'plait-train (?!plot|--)', command):
        return command + ' --steps 2'
    return command


def run(command, room, environment):
    expected = next((status for part, status in ENDS.items() if part in command), 0)
    done = subprocess.run(['bash', '-c', command], cwd=room, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace', timeout=100)
    if (done.returncode != 0) == (expected != 0):
        return True
    print(f'  exit status {done.returncode}: {command}\n' + done.stdout[-1500:])
    return False


def main():
    room = build / 'pages'  # not in /tmp, which virtual hosts do not share
    shutil.rmtree(room, ignore_errors=True)
    programs = room / 'bin'
    programs.mkdir(parents=True)
    for name in OURS:
        found = [f for f in build.glob(f'*/{name}') if f.is_file()]
        assert len(found) == 1, f'{name}: {found}'
        (programs / name).symlink_to(found[0])
    environment = {k: v for k, v in os.environ.items() if not k.startswith('PLAIT_')}
    environment['OMPI_ALLOW_RUN_AS_ROOT'] = environment['OMPI_ALLOW_RUN_AS_ROOT_CONFIRM'] = '1'
    environment['PYTHONPATH'] = f'{source}/python'
    environment['PATH'] = f'{programs}:{environment["PATH"]}'
    hosts = subprocess.run(['unshare', '-n', 'true'], stderr=subprocess.DEVNULL, check=False).returncode == 0
    assert run(shorter('plait-train make-data images'), room, environment)
    used, ran, failed, seen = set(), 0, 0, set()
    for page in [source / 'README.md'] + sorted((source / 'docs').glob('*.md')) + [source / 'python/README.md']:
        for command in commands_of(page):
            command = command.strip()
            if not BEGINS.match(command + ' ') or (command in OURS) or command in seen or ' ' not in command:
                continue
            seen.add(command)
            reason = next((i for i, (pattern, _) in enumerate(NOT_HERE) if re.search(pattern, command)), None)
            if reason is not None:
                used.add(reason)
                continue
            short = LAUNCHERS.sub('mpirun -n 2 --bind-to none ', command)
            for a, b in PLACES:
                short = short.replace(a, b)
            short = short.replace('/shared/run', f'run-of-{ran}')
            if short.startswith('plait-hosts') and not hosts:
                print(f'skipped: {command}: virtual hosts need privileges')
                continue
            print(f'[ RUN      ] {page.name}: {command}', flush=True)
            ran += 1
            failed += not run(shorter(short), room, environment)
    stale = [NOT_HERE[i][0] for i in range(len(NOT_HERE)) if i not in used]
    assert not stale, f'no command is like {stale}'
    assert ran > 30, ran
    print(f'{ran} commands of the pages ran, {failed} failed')
    if not failed:
        shutil.rmtree(room)
    return failed > 0


sys.exit(main())
