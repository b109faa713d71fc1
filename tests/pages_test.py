#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every command that a page shows runs. Usage: pages_test.py SOURCE_FOLDER BUILD_FOLDER

Commands are the lines of ```sh fences, indented lines (explanations follow after two blanks), and code spans that begin
with a program of ours. They run as they stand, with what `export` lines above them on the page set, in a home folder
of their own where ~/plait has this build; but for fewer iterations, sizes and steps.
Those that cannot run here are listed below with the reason; a reason that fits no command is an error. So is a test
that is named as the one that runs a command, but does not have its words.
"""
import os
import pathlib
import re
import shlex
import shutil
import site
import subprocess
import sys

source, build = (pathlib.Path(p).resolve() for p in sys.argv[1:])
OURS = ('plait-info', 'plait-plan', 'plait-perf', 'plait-hosts', 'plait-train')
# What stands for what a user has.
PLACES = [('/data/imagenet --model resnet50 --batch 1024', 'images --model resnet20 --batch 8'),
          ('/usr/local/share/plait/', f'{source}/bench/data/'), ('FOLDER', 'images'),
          ('DATA --resume RUN', 'images --resume first'),
          ('-- COMMAND', '-- plait-info'),
          ('plait/nccl ./program', f'plait/nccl {sys.executable} -c "import ctypes; ctypes.CDLL(\'libnccl.so.2\')"'),
          ('./program', 'plait-info'), ('build/release/tools/', ''),
          ('build/release/', f'{build}/'), ('python3 examples/', f'{sys.executable} {source}/examples/'),
          ('--peer ...', '--peer openmpi:ob1'),
          ('check NAME', 'check ring'), ('check SPEC', 'check ring'), ('--ranks N', '--ranks 8')]
# A launcher that is not here, or has no other hosts, is Open MPI's on this one.
LAUNCHERS = re.compile(r'^(LAUNCHER|mpirun( -H \S+)?( --bind-to none)?( -n \d+)?|'
                       r'srun( -N \d+)?( --ntasks-per-node \d+)?|'
                       r'torchrun( --(nnodes|nproc-per-node|rdzv-backend|rdzv-endpoint) \S+| --no-python)*( --)?)'
                       r' (?=plait-|\./sum$)')
NOT_HERE = [  # pattern, reason, and the file that runs it with the words by which it does
    (r'^(\./)?tools/(demo|check|memcheck|analyze|fuzz|nvcc|setup|figures)\b', 'installs packages, or runs for minutes'),
    (r'^meson setup build/|^ninja -C build/release$', 'builds the whole library',
     'tools/check', 'meson setup', 'ninja -C'),
    (r'^(sudo )?meson install\b', 'may change the machine', 'tests/install_test.sh', 'meson install'),
    (r'^sudo ldconfig$', 'changes the machine'),
    (r'uninstall$', 'may change the machine', 'tests/install_test.sh', 'uninstall'),
    (r'^pip install \./python$', 'needs a network: pip gets setuptools'),
    (r'^make MPI=1 ', 'needs nccl-tests and CUDA', 'tools/gpu-check', 'MPI=1', 'NCCL_HOME='),
    (r'^build/\w+/(tests/campaign|train/train_kill_test)', 'long runs of the tests'),
    (r'^kubectl', 'needs a cluster'),
    (r'plait-info --dump PID', 'needs a job', 'tests/ring_test.c', '--dump'),
    (r'^lib/|^transports/|^train/', 'files, in the order of their calls'),
    (r'\bimport torch|from safetensors', 'needs PyTorch'),
    (r'--peer .*\bddp\b', 'needs PyTorch: where it is a test runs it', 'tests/perf_test.sh', '--peer', 'ddp'),
    (r'build/all_reduce_perf', 'needs GPUs', 'tools/gpu-check', 'all_reduce', '-g 1'),
    (r'--coll all -r 1', 'runs for minutes', 'tests/perf_test.sh', '--coll all -r 1'),
    (r'^plait-(perf fusion|perf --overlap|info --explain)$', 'a part of a command'),
]
ENDS = {'--cut 2:1': (3, 'host1 is down')}  # status and words; the others end with 0


def commands_of(page):
    text = page.read_text(encoding='utf-8')
    for fence in re.findall(r'^```sh\n(.*?)^```', text, re.DOTALL | re.MULTILINE):
        yield from (line for line in fence.replace('\\\n', ' ').splitlines() if line and not line.startswith('#'))
    text = re.sub(r'^```.*?^```', '', text, flags=re.DOTALL | re.MULTILINE)
    for line in re.findall(r'^    (\S.*)$', text, re.MULTILINE):
        yield re.split(r'\s{2,}', line)[0]
    yield from re.findall(r'`((?:LAUNCHER |[A-Z_]+=\S+ )*plait-\w+ [^`\n]+)`', text)


def shorter(command):
    """The same with little to do."""
    if re.search(r'plait-perf (fusion|elastic)', command):
        return command + ' -n 1 --rounds 1' + (' --bytes 64K --compute-ms 1' if 'elastic' in command else '')
    if re.search(r'\bplait-perf\b', command) and '--cut' not in command:
        return command + ' -n 1 -w 0 --rounds 1' + ('' if '--tensors' in command else ' -b 1K -e 16K -f 16')
    if 'plait-train make-data' in command:
        return command + ' --classes 2 --train-images 16 --val-images 4'
    if re.search(r'plait-train (?!plot|--)', command):
        return command + ' --steps 2'
    return command


def run(command, room, environment):
    expected, words = next((ends for part, ends in ENDS.items() if part in command), (0, ''))
    done = subprocess.run(['bash', '-c', command], cwd=room, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace', timeout=100)
    if done.returncode == expected and words in done.stdout:
        return True
    print(f'  exit status {done.returncode}, not {expected} {words}: {command}\n' + done.stdout[-1500:])
    return False


def install(home):
    """This build in ~/plait of it, as links."""
    lib = home / 'plait/lib'
    (lib / 'pkgconfig').mkdir(parents=True)
    (lib / 'plait').mkdir()
    for file in (build / 'plait').iterdir():
        (lib / 'plait' / file.name).symlink_to(file.resolve())
    (home / 'plait/bin').symlink_to(home.parent / 'bin')
    for file in build.glob('libplait.so*'):
        if file.is_file():
            (lib / file.name).symlink_to(file)
    (lib / 'plait/nccl').symlink_to(build / 'nccl')
    text = (build / 'meson-uninstalled/plait-uninstalled.pc').read_text()
    text = re.sub(r'^libdir=.*$', f'libdir={lib}', text, flags=re.MULTILINE)
    (lib / 'pkgconfig/plait.pc').write_text(text.replace('-L${prefix} ', '-L${libdir} '))
    return home


def the_named_tests_run_them():
    for pattern, _, *witness in NOT_HERE:
        text = (source / witness[0]).read_text() if witness else ''
        missing = [words for words in witness[1:] if words not in text]
        assert not missing, f'{pattern}: {witness[0]} has no {missing}'
        assert not witness or len(witness) > 1, f'{pattern}: by which words?'
    assert not [r for _, r, *_ in NOT_HERE if re.search(r'_test|tools/', r)], 'a test is named in a reason'


def main():
    the_named_tests_run_them()
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
    environment['PYTHONUSERBASE'] = site.getuserbase()
    environment['HOME'] = str(install(room / 'home'))
    environment['PKG_CONFIG_PATH'] = f'{room}/home/plait/lib/pkgconfig'
    environment['LD_LIBRARY_PATH'] = f'{room}/home/plait/lib'
    program, = re.findall(r'^```c\n(.*?)^```$', (source / 'README.md').read_text(), re.DOTALL | re.MULTILINE)
    (room / 'sum.c').write_text(program)
    hosts = subprocess.run(['unshare', '-n', 'true'], stderr=subprocess.DEVNULL, check=False).returncode == 0
    assert run(shorter('plait-train make-data images'), room, environment)
    used, ran, failed, seen = set(), 0, 0, set()
    for page in [source / 'README.md'] + sorted((source / 'docs').glob('*.md')) + [source / 'python/README.md']:
        exports = ''
        for command in commands_of(page):
            command = command.strip()
            if command in seen:
                continue
            seen.add(command)
            reason = next((i for i, (pattern, *_) in enumerate(NOT_HERE) if re.search(pattern, command)), None)
            if reason is not None:
                used.add(reason)
                continue
            short = LAUNCHERS.sub('mpirun -n 2 --bind-to none ', command)
            for a, b in PLACES:
                short = short.replace(a, b)
            short = short.replace('/shared/run', f'run-of-{ran}')
            if 'plait/nccl' in short and not (build / 'nccl/libnccl.so.2').exists():
                print(f'skipped: {command}: this build has no libnccl.so.2')
                continue
            if short.startswith('plait-hosts') and not hosts:
                print(f'skipped: {command}: virtual hosts need privileges')
                continue
            print(f'[ RUN      ] {page.name}: {command}', flush=True)
            ran += 1
            failed += not run(exports + shorter(short), room, environment)
            if short.startswith('export '):
                exports += short + '\n'
    stale = [NOT_HERE[i][0] for i in range(len(NOT_HERE)) if i not in used]
    assert not stale, f'no command is like {stale}'
    assert ran > 30, ran
    print(f'{ran} commands of the pages ran, {failed} failed')
    if not failed:
        shutil.rmtree(room)
    return failed > 0


sys.exit(main())
