#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Links of the pages lead to files, and to titles, that are there. Usage: links_test.py SOURCE_FOLDER

It works without a network: http links are not followed.
"""
import pathlib
import re
import sys

import sentences

source = pathlib.Path(sys.argv[1])
pages = [p for folder in ('.', 'docs', 'python', 'nccl') for p in (source / folder).glob('*.md')]


def text_without_code(page):
    return re.sub(r'```.*?```', '', page.read_text(encoding='utf-8'), flags=re.DOTALL)


def anchors_of(page):
    """As GitHub makes them: lower case, no punctuation, hyphens for blanks."""
    titles = re.findall(r'^#+ (.*)$', text_without_code(page), re.MULTILINE)
    return {re.sub(r'[^\w\- ]', '', title.lower()).replace(' ', '-') for title in titles}


def links_lead_somewhere():
    found = 0
    for page in pages:
        for link in re.findall(r'\]\(([^)\s]+)\)', text_without_code(page)):
            if link.startswith(('http://', 'https://')):
                continue
            name, _, anchor = link.partition('#')
            target = page if name == '' else page.parent / name
            assert target.exists(), f'{page}: {link}: there is no such file'
            assert anchor == '' or anchor in anchors_of(target), f'{page}: {link}: there is no such title'
            found += 1
    assert found > 50, found


def the_readme_leads_to_every_page():
    text = (source / 'README.md').read_text(encoding='utf-8')
    missing = [p.name for p in (source / 'docs').glob('*.md') if f'docs/{p.name}' not in text]
    assert not missing, missing


sentences.run([links_lead_somewhere, the_readme_leads_to_every_page])
