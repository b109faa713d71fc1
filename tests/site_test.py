#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tools/site makes a page of each header and of each text, with every function, its parameters and every picture.
Usage: site_test.py SOURCE_FOLDER HEADER_FOLDER ...
"""
import html
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import headers
import sentences

source, *folders = sys.argv[1:]
source = pathlib.Path(source).resolve()
site = pathlib.Path(tempfile.mkdtemp())


def text(name):
    return html.unescape(re.sub(r'<[^>]*>', ' ', (site / name).read_text(encoding='utf-8')))


def it_is_made_without_warnings_and_dead_links():
    done = subprocess.run([source / 'tools/site', site], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    assert done.returncode == 0, done.stdout
    assert ' 0 of them dead' in done.stdout, done.stdout


def every_function_is_documented_with_its_comment():
    for f in headers.functions(folders):
        if f.is_variable or f.header == 'version.h':
            continue
        page = ' '.join(re.findall(r'[A-Za-z_]+', text(f.header.replace('.', '_8') + '.html')))
        first = ' '.join(re.findall(r'[A-Za-z_]+', f.comment)[:2])
        assert f.name in page and first in page, f'{f.header}: {f.name}: {first}'
    assert 'Parameters' in text('coll_8h.html') and 'Errors' in text('coll_8h.html')


def every_enumerator_of_a_list_is_there():
    page = text('coll_8h.html')
    for row in headers.rows(folders, 'PLAIT_DTYPE_LIST') + headers.rows(folders, 'PLAIT_OP_LIST'):
        assert row[0] in page, row


def every_page_and_picture_is_there():
    index = (site / 'pages.html').read_text(encoding='utf-8')
    for page in (source / 'docs').glob('*.md'):
        assert f'href="{page.stem.lower()}.html"' in index, page
    for picture in re.findall(r'!\[[^]]*\]\((?:docs/)?([\w-]+\.\w+)\)', ''.join(
            p.read_text(encoding='utf-8') for p in [source / 'README.md', *(source / 'docs').glob('*.md')])):
        assert (site / picture).is_file(), picture


def other_words_of_doxygen_are_an_error():
    """By a Doxygen that makes two pages, each time without one of the words."""
    words = re.findall("^reword .*?html '(.*?)'", (source / 'tools/site').read_text(encoding='utf-8'), re.M)
    assert len(words) == 4, words
    with tempfile.TemporaryDirectory() as room:
        fake = pathlib.Path(room, 'doxygen')
        fake.write_text('#!/bin/sh\ncd "$(sed -n \'s/OUTPUT_DIRECTORY = "\\(.*\\)"/\\1/p\')" && '
                        'echo "$WORDS" | tee files.html >pages.html\n', encoding='utf-8')
        fake.chmod(0o755)
        for word in words:
            env = {**os.environ, 'PATH': f'{room}:{os.environ["PATH"]}', 'WORDS': ' '.join(w for w in words if w != word)}
            done = subprocess.run([source / 'tools/site', f'{room}/site'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, check=False, env=env)
            assert done.returncode == 1 and f"html has no '{word}'" in done.stdout, done.stdout


def a_dead_link_is_found():
    page = site / 'install.html'
    for wrong, what in ('href="nowhere.html"', 'no such file'), ('href="index.html#nowhere"', 'no such place'), \
            ('src="nothing.png"', 'no such file'):
        before = page.read_text(encoding='utf-8')
        page.write_text(before + f'<a {wrong}>x</a>', encoding='utf-8')
        done = subprocess.run([source / 'docs/site/links.py', site], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)
        page.write_text(before, encoding='utf-8')
        assert done.returncode == 1 and what in done.stdout, done.stdout


try:
    sentences.run([it_is_made_without_warnings_and_dead_links, every_function_is_documented_with_its_comment,
                   every_enumerator_of_a_list_is_there, every_page_and_picture_is_there,
                   other_words_of_doxygen_are_an_error, a_dead_link_is_found])
finally:
    shutil.rmtree(site)
