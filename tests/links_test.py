#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Links of the pages lead to files, and to titles, that are there. Error texts that troubleshooting.md quotes are in
the sources. Usage: links_test.py SOURCE_FOLDER

Links to other sites are https, and point at something that keeps its address. With PLAIT_TEST_TIER=full they are
followed, if there is a network.
"""
import os
import pathlib
import re
import sys
import urllib.error
import urllib.request

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


KEPT = r'https://(arxiv\.org/abs/\d{4}\.\d{5}|doi\.org/10\.\d{4,}/\S+|github\.com/[\w.-]+/[\w.-]+)$'


def follow(link):
    """None, or what is wrong with it. No network is nothing wrong."""
    try:
        request = urllib.request.Request(link, method='HEAD', headers={'User-Agent': 'links_test'})
        with urllib.request.urlopen(request, timeout=20) as answer:
            return None if answer.status == 200 else answer.status
    except urllib.error.HTTPError as error:
        return error.code if error.code in (404, 410) else None
    except OSError as error:
        print(f'{link}: not followed: {error}')
        return None


def links_to_other_sites_keep_their_addresses():
    links = {link: page for page in pages
             for link in re.findall(r'\]\((http[^)\s]+)\)', text_without_code(page))}
    assert links, 'none was found'
    for link, page in links.items():
        assert re.match(KEPT, link), f'{page}: {link}: is not one of {KEPT}'
        wrong = follow(link) if os.environ.get('PLAIT_TEST_TIER') == 'full' else None
        assert wrong is None, f'{page}: {link}: {wrong}'


def the_readme_leads_to_every_page():
    text = (source / 'README.md').read_text(encoding='utf-8')
    missing = [p.name for p in (source / 'docs').glob('*.md') if f'docs/{p.name}' not in text]
    assert not missing, missing


def troubleshooting_quotes_texts_of_the_sources():
    """Dots and words in capitals (N, FILE) stand for anything. What is between them is looked up, phrase by phrase."""
    texts = '\n'.join(p.read_text(encoding='utf-8') for p in (source / 'lib').glob('**/*.[ch]'))
    texts = re.sub(r'%(?:\.\d+)?(?:zu|[sdugc])', '', re.sub(r'"\s*"', '', texts))
    found = 0
    tables = (source / 'docs' / 'troubleshooting.md').read_text(encoding='utf-8').split('\n\n')
    for row in [row for table in tables if table.startswith('| text ') for row in table.splitlines()[2:]]:
        for quote in re.findall('`([^`]*)`', row.split('|')[1]):
            if quote.endswith('cannot open shared object file'):  # of the loader of programs
                continue
            for part in re.split(r'\.\.\.|[,:;]|(?:\brank )?\b[A-Z]+\b', quote):
                part = part.strip()
                assert part in texts, f'no error text has: {part}, of: {quote}'
                found += part != ''
    assert found > 15, found


sentences.run([links_lead_somewhere, links_to_other_sites_keep_their_addresses, the_readme_leads_to_every_page,
               troubleshooting_quotes_texts_of_the_sources])
