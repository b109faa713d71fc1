#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Each program has a man page that says what --help says. Usage: man_test.py PROGRAM PAGE ..."""
import re
import subprocess
import sys

import sentences


def page_of(path):
    """A page as lines of plain text."""
    with open(path, encoding='utf-8') as file:
        return re.sub(r'\\f(\(..|.)', '', file.read()).replace('\\-', '-').splitlines()


def read(program, path):
    text = subprocess.run([program, '--help'], check=True, capture_output=True, text=True).stdout
    return program.rsplit('/', 1)[-1], text.splitlines(), page_of(path)


tools = [read(program, path) for program, path in zip(sys.argv[1::2], sys.argv[2::2])]


def every_option_of_help_is_in_the_page():
    for name, text, page in tools:
        options = [re.match(r' +((-\w, )?--[\w-]+)', line) for line in text]
        options = [match.group(1) for match in options if match]
        assert '--help' in ' '.join(options), f'{name}: no option was found in --help'
        missing = [o for o in options if not any(line == o or line.startswith((o + ' ', o + '=')) for line in page)]
        assert not missing, f'{name}: not in its man page: {missing}'


def every_page_has_name_synopsis_and_options():
    for name, _, page in tools:
        headings = [line for line in page if line.startswith('.SH')]
        assert headings[:3] == ['.SH NAME', '.SH SYNOPSIS', '.SH DESCRIPTION'], f'{name}: {headings}'
        assert '.TP' in page, f'{name}: no list of options'
        assert any(line.startswith(name + ' - ') for line in page), f'{name}: no such name'


def every_example_is_a_line_of_its_own():
    for name, text, page in tools:
        for line in filter(lambda line: line.startswith('  $ '), text):
            assert line.strip() in page, f'{name}: {line}'


assert 4 <= len(tools) <= 6, sys.argv  # plait-train and plait-tune need libraries
sentences.run([every_page_has_name_synopsis_and_options, every_option_of_help_is_in_the_page,
               every_example_is_a_line_of_its_own])
