#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The public headers are the manual; and NEWS names what the library exports.

Usage: headers_test.py NM LIBPLAIT NEWS HEADER_FOLDER ...
"""
import re
import subprocess
import sys

import headers
import sentences

nm, library, news = sys.argv[1:4]
functions = headers.functions(sys.argv[4:])


def every_function_says_which_threads_may_call_it():
    missing = [f'{f.header}: {f.name}' for f in functions
               if not f.is_variable and 'Thread' not in f.comment and 'Thread' not in f.group]
    assert not missing, 'no "Thread:" in the comment, nor in that of the group: ' + ', '.join(missing)


def every_function_has_a_comment():
    missing = [f'{f.header}: {f.name}' for f in functions if not f.comment]
    assert not missing, 'no comment above: ' + ', '.join(missing)


def news_says_every_exported_name():
    """NEWS, from its end up, says which names came and went; that makes what is exported now."""
    listed = set()
    with open(news, encoding='utf-8') as file:
        entries = re.findall(r'^\* (New|Removed) names:((?:.*\n)(?:  .*\n)*)', file.read(), re.MULTILINE)
    for what, names in reversed(entries):
        names = set(re.findall(r'plait_\w+', names))
        listed = listed | names if what == 'New' else listed - names
    symbols = subprocess.run([nm, '-D', '--defined-only', library], check=True, capture_output=True, text=True).stdout
    exported = {line.split()[-1] for line in symbols.splitlines() if line.split()[-1].startswith('plait_')}
    assert exported, f'{nm} shows no name of {library}'
    assert exported == listed, \
        'exported, but in no "New names:" of NEWS: ' + (', '.join(sorted(exported - listed)) or 'none') + \
        '; in NEWS, but not exported (say "Removed names:"): ' + (', '.join(sorted(listed - exported)) or 'none')


sentences.run([every_function_says_which_threads_may_call_it, every_function_has_a_comment,
               news_says_every_exported_name])
