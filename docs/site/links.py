#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Links and pictures of a folder of HTML pages lead to files, and to anchors, that are there. Usage: links.py FOLDER"""
import html.parser
import pathlib
import sys
import urllib.parse


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.anchors, self.links = set(), []
        self.feed(path.read_text(encoding='utf-8'))

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ('id', 'name') and value:
                self.anchors.add(value)
            elif name in ('href', 'src', 'data') and value:
                self.links.append(value)


def main():
    folder = pathlib.Path(sys.argv[1])
    pages = {path.name: Page(path) for path in folder.glob('*.html')}
    wrong, seen = [], 0
    for name, page in sorted(pages.items()):
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme in ('http', 'https', 'mailto', 'javascript'):
                continue
            seen += 1
            target, anchor = urllib.parse.unquote(parts.path) or name, urllib.parse.unquote(parts.fragment)
            if not (folder / target).is_file():
                wrong.append(f'{name}: {link}: there is no such file')
            elif anchor and target in pages and anchor not in pages[target].anchors:
                wrong.append(f'{name}: {link}: there is no such place')
    print('\n'.join(wrong), file=sys.stderr, end='\n' if wrong else '')
    print(f'{len(pages)} pages, {seen} links, {len(wrong)} of them dead')
    return bool(wrong) or seen < 100


sys.exit(main())
