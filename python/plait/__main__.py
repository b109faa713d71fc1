# SPDX-License-Identifier: BSD-3-Clause
"""The command `plait`, and `python -m plait`: starts a program of the library, plait-info where none is named."""
import os
import shutil
import sys

PROGRAMS = ('info', 'perf', 'plan', 'tune', 'hosts')
USAGE = """\
usage: plait [OPTION ...]          plait-info: features, settings, the machine, the algorithms
       plait PROGRAM [OPTION ...]  plait-PROGRAM; one of info, perf, plan, tune, hosts
"""


def find(program: str) -> str:
    """The path of a program: in this package, else as the shell finds it. "": nowhere."""
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), '_prefix', 'bin', program)
    return own if os.access(own, os.X_OK) else shutil.which(program) or ''


def main() -> None:
    arguments = sys.argv[1:]
    if arguments[:1] in (['-h'], ['--help']):
        print(USAGE, end='')
        return
    name = 'plait-' + (arguments.pop(0) if arguments and arguments[0] in PROGRAMS else 'info')
    path = find(name)
    if not path:
        sys.exit(f'plait: there is no {name}: neither in this package nor in PATH; install a wheel of Plait, or the '
                 'package plait-tools')
    os.execv(path, [name] + arguments)


if __name__ == '__main__':
    main()
