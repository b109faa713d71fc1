#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Counts tests in meson's logs: count.py LOG.json ... prints failures with their words, skips with their reasons, the sum.

A program that prints cmocka's lines counts once per test function, any other once as a whole.
A program that fails or dies outside its functions counts as one failure more.
"""
import json
import re
import sys

SAID = re.compile(r'[\w/.]+_test\.\w+:\d+: ')  # a condition that is false, in a rank
MOST_SAID = 5  # lines of a program
LINE = re.compile(r'\[ *(RUN|OK|FAILED|SKIPPED) *\] (\S+)$')


def functions(text):
    """Outcome of each test function, in order; None while it has not ended. Forked children may repeat lines."""
    outcome = {}
    for line in text.splitlines():
        match = LINE.search(line)
        if match is None:
            continue
        what, name = match.groups()
        if what == 'RUN':
            outcome.setdefault(name, None)
        elif name in outcome and outcome[name] is None:
            outcome[name] = what
    return outcome


def skip_reason(test, name):
    """The last line that the test printed before it was skipped."""
    lines = test.get('stdout', '').splitlines()
    for i, line in enumerate(lines):
        if 'SKIPPED' in line and line.endswith(name) and i > 0 and not LINE.search(lines[i - 1]):
            return lines[i - 1].strip()
    return ''


def words(test):
    """The conditions that were false, or else the last lines."""
    lines = [line.strip() for line in (test.get('stdout', '') + test.get('stderr', '')).splitlines()]
    return [line for line in lines if SAID.search(line)][:MOST_SAID] or lines[-MOST_SAID:]


def count(test):
    passed, failed, skipped = 0, [], []
    name, result = test['name'], test['result']
    each = functions(test.get('stdout', ''))
    for function, outcome in each.items():
        if outcome == 'OK':
            passed += 1
        elif outcome == 'SKIPPED':
            skipped.append(f'{name}: {function}: {skip_reason(test, function)}')
        else:
            failed.append(f'{name}: {function}')
    if result == 'SKIP':
        if not each:
            lines = (test.get('stdout', '') + test.get('stderr', '')).strip().splitlines()
            skipped.append(f'{name}: {lines[-1] if lines else "no reason given"}')
    elif result in ('OK', 'EXPECTEDFAIL'):
        if not each:
            passed += 1
    elif not failed:
        failed.append(f'{name}: {result.lower()}, exit status {test.get("returncode")}')
    return passed, failed, skipped


def main():
    passed, failed, skipped = 0, [], []
    for path in sys.argv[1:]:
        try:
            with open(path, encoding='utf-8', errors='replace') as log:
                tests = [json.loads(line) for line in log if line.strip()]
        except (OSError, ValueError) as error:
            tests, failed = [], failed + [f'{path}: {error}']
        for test in tests:
            p, f, s = count(test)
            if f:
                f[-1] = '\n    '.join(f[-1:] + words(test))
            passed, failed, skipped = passed + p, failed + f, skipped + s
    for line in skipped:
        print('skipped', line)
    for line in failed:
        print('FAILED ', line)
    print(f'{passed} passed, {len(failed)} failed, {len(skipped)} skipped')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
