#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every command that a page shows runs. Usage: pages_test.py SOURCE_FOLDER BUILD_FOLDER

Commands are the lines of ```sh fences, indented lines (explanations follow after two blanks), and code spans of several
words that begin with a program. They run as they stand, with what `export` lines above them on the page set, in a home
folder of their own where ~/plait has this build; but for fewer iterations, sizes and steps.
Those that cannot run here are listed below: with the test that runs them and its line, or with one of a few reasons. A
row that fits no command is an error, and so is a test that is not there or does not have that line.
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
OURS = ('plait-info', 'plait-plan', 'plait-perf', 'plait-hosts', 'plait-train', 'plait-tune')
PROGRAMS = ('srun', 'torchrun', 'ulimit', 'export', 'nvidia-smi', 'nvidia-cuda-mps-control', 'ucx_info', 'kubectl')
# What stands for what a user has.
PLACES = [('/data/imagenet --model resnet50 --batch 1024', 'images --model resnet20 --batch 8'),
          ('/usr/local/share/plait/', f'{source}/bench/data/'), ('FOLDER', 'images'),
          ('node.xml', f'{source}/tests/machines/hgx-h100.xml'),
          ('DATA --resume RUN', 'images --resume first'),
          ('-- COMMAND', '-- plait-info'),
          ('plait/nccl ./program', f'plait/nccl {sys.executable} -c "import ctypes; ctypes.CDLL(\'libnccl.so.2\')"'),
          ('./program', 'plait-info'), ('build/release/tools/', ''),
          ('build/release/', f'{build}/'), ('python3 examples/', f'{sys.executable} {source}/examples/'),
          ('--peer ...', '--peer openmpi:ob1'),
          ('taskset -p PID', 'taskset -p $$'), ('NAME plait-perf', 'ring plait-perf'),
          ('check NAME', 'check ring'), ('check SPEC', 'check ring'), ('--ranks N', '--ranks 8')]
# A launcher that is not here, or has no other hosts, is Open MPI's on this one.
LAUNCHERS = re.compile(r'^(LAUNCHER|mpirun( -H \S+)?( --bind-to none)?( -n \d+)?|'
                       r'srun( -N \d+)?( --ntasks-per-node \d+)?|'
                       r'torchrun( --(nnodes|nproc-per-node|rdzv-backend|rdzv-endpoint) \S+| --no-python)*( --)?)'
                       r' (?=plait-|\./sum$)')
# Why a command is not run here.
NEEDS_GPU, NEEDS_TORCH = 'needs a GPU', 'needs PyTorch'
CLUSTER = 'needs the launcher or the network of a cluster'
CHANGES = 'changes the machine'
NETWORK = 'fetches packages'
MINUTES = 'builds or tests for minutes'
PART = 'a part of a command, or none'
REASONS = (NEEDS_GPU, NEEDS_TORCH, CLUSTER, CHANGES, NETWORK, MINUTES, PART)
NOT_HERE = [  # pattern, and the reason, or the file of the test that runs it and a pattern of its line
    (r'^(\./)?tools/(check|memcheck|analyze|fuzz|figures|train-evidence|hosts)\b', MINUTES),
    (r'^(\./)?tools/demo\b', MINUTES), (r'^(\./)?tools/(setup|nvcc)\b', NETWORK),
    (r'^(NCCL_TESTS=\S+ OPENMPI=\S+ )?tools/gpu-check( --only \S+| --train)?$', NEEDS_GPU),
    (r'^plait-train .*--device cuda', 'tests/train_cuda_test.sh', r'--device cuda'),
    (r'^tools/site\b', 'tests/site_test.py', r'tools/site'), (r'^sudo apt ', CHANGES),
    (r'^tools/packages$', 'tests/packages_test.sh', r'tools/packages'),
    (r'^tools/wheel$', 'tests/wheel_test.sh', r'tools/wheel'),
    (r'^plait( |$)', 'tests/python_library_test.py', r"'-m', 'plait'"),
    (r'^tools/gpu-check --stand-in', 'tests/cuda/gpu_check_test.sh', r'--stand-in'),
    (r'^meson setup build/|^ninja -C build/release$|^ninja -C build test$|^meson test', MINUTES),
    (r'^tests/mutate\.py', MINUTES),
    (r'^(sudo )?meson install\b', 'tests/install_test.sh', r'meson install -C'),
    (r'^sudo ldconfig$|^ip link set|^ulimit -l unlimited$', CHANGES),
    (r'uninstall$', 'tests/install_test.sh', r'meson --internal uninstall'),
    (r'^pip install|^dnf install', NETWORK), (r'^python3 -m build --sdist', 'tests/sdist_test.py', r"'sdist'"),
    (r'^make MPI=1 |build/all_reduce_perf|^nvidia-|\| nvidia-', NEEDS_GPU),
    (r'^build/\w+/tests/campaign', 'tests/meson.build', r"^test\('campaign'"),
    (r'^build/\w+/train/train_kill_test', 'train/meson.build', r"test\('train_kill'"),
    (r'^kubectl|^ls /dev/infiniband|^ucx_info', CLUSTER),
    (r'^(srun|mpirun) --?[\w-]+([= ]\S+)?$', PART),
    (r'^mpirun .*LD_PRELOAD=libplait-mpi', 'tests/mpi/mpi_test.sh', r'LD_PRELOAD="\$library"'),
    (r'plait-info --dump PID', 'tests/ring_test.c', r'--dump %d'),
    (r'^lib/|^transports/|^train/', PART),
    (r'\bimport torch|from safetensors|^tests/nccl/torch_ranks', NEEDS_TORCH),
    (r'^torchrun .* train\.py$', 'tests/torch_train_test.py', r'torchrun'), (r'bench/torch_allreduce\.py', MINUTES),
    (r'--peer .*\bddp\b', 'tests/perf_test.sh', r'\$perf" \$fusion .*--peer ddp'),
    (r'--coll all -r 1', 'tests/perf_test.sh', r'--coll all -r 1'),
    (r'^tests/settings_page\.py', 'tests/meson.build', r"files\('settings_page.py'\)"),
    (r'^plait-(perf fusion|perf --overlap|perf --report|plan draw|info --explain)$|^which is device memory', PART),
]
ENDS = {'--cut 2:1': (3, 'host1 is down')}  # status and words; the others end with 0


def commands_of(page):
    text = page.read_text(encoding='utf-8')
    for fence in re.findall(r'^```sh\n(.*?)^```', text, re.DOTALL | re.MULTILINE):
        yield from (line for line in fence.replace('\\\n', ' ').splitlines() if line and not line.startswith('#'))
    text = re.sub(r'^```.*?^```', '', text, flags=re.DOTALL | re.MULTILINE)
    for line in re.findall(r'^    (\S.*)$', text, re.MULTILINE):
        yield re.split(r'\s{2,}', line)[0]
    for span in re.findall(r'`([^`]+)`', re.sub(r'^    .*$', '', text, flags=re.MULTILINE)):
        words = re.sub(r'^(LAUNCHER |[A-Z_]+=\S+ )*', '', span := ' '.join(span.split())).split()
        if len(words) > 1 and (words[0] in OURS + PROGRAMS or words[0].startswith(('tools/', 'tests/', 'build/')) or
                               shutil.which(words[0])):
            yield span


def shorter(command):
    """The same with little to do."""
    if re.search(r'plait-perf (fusion|elastic)', command):
        return command + ' -n 1 --rounds 1' + (' --bytes 64K --compute-ms 1' if 'elastic' in command else '')
    if re.search(r'\bplait-perf\b', command) and '--cut' not in command:
        return command + ' -n 1 -w 0 --rounds 1' + ('' if '--tensors' in command else ' -b 1K -e 16K -f 16')
    if 'plait-tune' in command:
        return command + ' --seconds 1'
    if 'simulate' in command and '--bytes 64M' in command:
        return command.replace('--bytes 64M', '--bytes 4M')
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


def lines_of(path):
    """The lines of a file that are no comments."""
    lines = (source / path).read_text(encoding='utf-8').splitlines()
    return [line for line in lines if not re.match(r'\s*(#|//|/\*|\*)', line)]


def excuses_hold():
    listed = '\n'.join(line for file in ('tests/meson.build', 'tests/mpi/meson.build', 'train/meson.build',
                                         'tests/cuda/libraries/meson.build')
                       for line in lines_of(file))
    for pattern, why, *line in NOT_HERE:
        if not line:
            assert why in REASONS, f'{pattern}: {why}'
            continue
        name = pathlib.Path(why).name
        test = re.sub(r'_test\.(c|py|sh)$', '', name)
        assert name == 'meson.build' or name in listed or f"'{test}'" in listed, f'{why} is no test'
        assert any(re.search(line[0], text) for text in lines_of(why)), f'{pattern}: {why} has no line like {line[0]}'


def main():
    excuses_hold()
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
    environment['PATH'] = f'{programs}:{pathlib.Path(sys.executable).parent}:{environment["PATH"]}'
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
