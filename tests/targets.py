#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What ninja must build for some tests: targets.py BUILD -SUITE ... prints it for all tests but those of some suites,
targets.py BUILD NAME|SUITE ... for those named.
"""
import json
import os
import subprocess
import sys


def introspect(build, what):
    return json.loads(subprocess.run(['meson', 'introspect', what, build], check=True, stdout=subprocess.PIPE).stdout)


def main():
    build, wanted = sys.argv[1], sys.argv[2:]
    excluded = {suite[1:] for suite in wanted if suite[0] == '-'}
    needed = set()
    for test in introspect(build, '--tests'):
        suites = {suite.split(':')[-1] for suite in test['suite']}
        if {test['name'], *suites} & set(wanted) or (excluded and not excluded & suites):
            needed |= set(test['depends'])
    for target in introspect(build, '--targets'):
        if target['id'] in needed:
            print(*(os.path.relpath(path, build) for path in target['filename']))


if __name__ == '__main__':
    main()
