#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What ninja must build for some tests: targets.py BUILD [NAME|SUITE ...] [-SUITE ...] prints it for those named (none: for
all) but those of some suites.
"""
import json
import os
import subprocess
import sys


def introspect(build, what):
    return json.loads(subprocess.run(['meson', 'introspect', what, build], check=True, stdout=subprocess.PIPE).stdout)


def main():
    build, wanted = sys.argv[1], sys.argv[2:]
    named = {name for name in wanted if name[0] != '-'}
    excluded = {suite[1:] for suite in wanted if suite[0] == '-'}
    needed = set()
    for test in introspect(build, '--tests'):
        suites = {suite.split(':')[-1] for suite in test['suite']}
        if (not named or {test['name'], *suites} & named) and not excluded & suites:
            needed |= set(test['depends'])
    for target in introspect(build, '--targets'):
        if target['id'] in needed:
            print(*(os.path.relpath(path, build) for path in target['filename']))


if __name__ == '__main__':
    main()
