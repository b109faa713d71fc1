#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Doxygen's input filter (tools/site): prints a public header, or a page, as Doxygen wants to read it.

Usage: filter.py FILE, in the root of the tree

Headers are written for readers of C: plain comments, arguments as an aligned list, enums from X-lists. Pages are written for
GitHub, so their links name files and titles of the tree.
"""
import pathlib
import re
import sys

COMMENT = re.compile(r'/\*.*?\*/', re.DOTALL)
PAGES = {p: p.stem.lower() for p in [pathlib.Path('README.md'), pathlib.Path('python/README.md'), pathlib.Path('nccl/README.md'),
                                     *pathlib.Path('docs').glob('*.md')] if p.exists()}
PAGES[pathlib.Path('README.md')] = 'mainpage'
PAGES[pathlib.Path('python/README.md')] = 'python'


# ---- Headers ------------------------------------------------------------------------------------

def plain(text):
    """Words as they are, outside code spans: nothing in them is a command."""
    parts = re.split(r'(`[^`]*`)', text.replace(' .. ', ' \u2013 '))
    return ''.join(p if p.startswith('`') else re.sub(r'([\\@&$#<>%*|])', r'\\\1', p) for p in parts)


def lines_of(comment):
    inside = re.sub(r'^/\*+|\*/$', '', comment)
    lines = [re.sub(r'^ *\* ?', '', line, count=1).rstrip() for line in inside.split('\n')]
    lines[0] = lines[0].strip()
    while lines and not lines[0]:
        lines.pop(0)
    return lines


def body(comment, parameters=(), first=False):
    """A comment's text as Markdown with Doxygen's commands: @param for arguments, @par for "Thread:" and the like. The
    first comment of a file begins with its title."""
    lines, out, entry, code = lines_of(comment), [], False, False
    if lines[0].startswith('symbol, '):  # the fields of an X-list; below it, what rows mean
        lines = [re.sub(r'^symbol, [^.]*\.? ?', '', lines[0])] + \
            [re.sub(r'^([a-z][\w -]*): ', r'- `\1`: ', line) for line in lines[1:]]
    if first:
        out.append(f'@brief {plain(lines.pop(0))}')
    for line in lines:
        label = re.match(r'([A-Z][A-Za-z-]*(?: [a-z]+)?): +(\S.*)', line)
        listed = re.match(r'((?:[\w.]+|\*)(?:, \w+)*) {2,}(\S.*)', line)
        if code and line.startswith('  '):
            out.append(line)
            continue
        if code and not line:
            out.append('')
            continue
        if code:
            out.append('```')
            code = False
        if not line:
            entry = False
            out.append('')
        elif line.startswith('  ') and entry:
            out.append('  ' + plain(line.strip()))
        elif line.startswith('  '):
            out += ['', '```{.c}' if line.startswith('    ') else '```{.txt}', line]
            code = True
        elif label:
            out += ['', f'@par {label.group(1)}', plain(label.group(2))]
            entry = True
        elif listed:
            names = listed.group(1).split(', ')
            known = all(name in parameters for name in names)
            out.append(f'@param {",".join(names)} {plain(listed.group(2))}' if known
                       else f'- `{listed.group(1)}` {plain(listed.group(2))}')
            entry = True
        else:
            out += ['' if entry else None, plain(line)]
            entry = False
    if code:
        out.append('```')
    return '\n'.join(line for line in out if line is not None).strip()


def names_of(declaration):
    """The parameters of a declaration."""
    inside = re.search(r'\((.*)\)', declaration, re.DOTALL)
    parts = re.split(r',(?![^(]*\))', inside.group(1)) if inside else []
    return [m.group(1) for m in (re.search(r'\(\*(\w+)\)|(\w+)(?:\[[^]]*\])*\s*$', p) for p in parts) for m in
            ([re.search(r'(\w+)', m.group(1) or m.group(2))] if m else [])]


def expand(text):
    """Enums from X-lists: an enumerator for each row, with what the row says."""
    lists = {m.group(1): re.findall(r'X\((.*)\)', m.group(2)) for m in
             re.finditer(r'#define (PLAIT_\w+_LIST)\(X\)((?:.*\\\n)*.*\n)', text)}
    text = re.sub(r'#define PLAIT_\w+_LIST\(X\)(?:.*\\\n)*.*\n\n?', '', text)

    def rows(m):
        fields, form = [f.strip() for f in m.group(1).split(',')], m.group(2)
        out = []
        for row in lists[m.group(3)]:
            values = [v.strip() for v in re.findall(r'"[^"]*"|[^,]+', row)]
            given = dict(zip(fields, values))
            code = re.sub(r'\w+', lambda w: given.get(w.group(0), w.group(0)), form).rstrip(', ')
            texts = [v.strip('"') for v in values if v.startswith('"')]
            out.append(f'    {code}, /* {texts[-1] if texts else ""} */')
        return '\n'.join(out) + '\n'
    return re.sub(r'#define PLAIT_X\(([^)]*)\) (.*)\n\s*(PLAIT_\w+_LIST)\(PLAIT_X\)\n#undef PLAIT_X\n', rows, text)


def header(path):
    text = expand(path.read_text(encoding='utf-8'))
    text = re.sub(r'^/\* SPDX.*\n', '', text)
    text = re.sub(r'#ifdef __cplusplus\n(extern "C" {|})\n#endif\n', '', text)
    text = re.sub(r'^#ifndef PLAIT_\w+_H\n#define PLAIT_\w+_H\n', '', text, flags=re.MULTILINE)
    text = re.sub(r'#if defined\(__GNUC__\)\n.*?#endif\n', '', text, flags=re.DOTALL)
    text = re.sub(r'#endif\s*$', '', text).replace('PLAIT_API ', '')
    out, end = [], 0
    for m in COMMENT.finditer(text):
        if m.start() < end:
            continue
        out.append(text[end:m.start()])
        end = m.end()
        before = text[text.rfind('\n', 0, m.start()) + 1:m.start()].strip()
        after = text[m.end():]
        if before.endswith('{') and before != '{':  # struct plait_step { /* one step of one rank */
            line = out[-1].rfind('\n') + 1
            out[-1] = f'{out[-1][:line]}/** {body(m.group())} */\n{out[-1][line:]}'
        elif before:
            out.append(f'/**< {body(m.group())} */')
        elif re.match(r'\n\s*\n|\s*$|\n#', after) and not out[-1].endswith('    ') and not after.startswith('\n#define'):
            out.append('' if m.group().startswith('/* --') else
                       f'/** @file\n{"@details " if "".join(out).strip() else ""}{body(m.group(), first=not "".join(out).strip())}\n*/')
        else:
            paragraph = re.match(r'\n(.*?)(?=\n\n|\Z)', after, re.DOTALL)
            declarations = re.findall(r'[^;{}]+\([^;{}]*\);\n?', paragraph.group(1) + '\n') if paragraph else []
            if ''.join(declarations).strip() != (paragraph.group(1).strip() if paragraph else ''):
                out.append(f'/**\n{body(m.group())}\n*/')
                continue
            out += [f'/**\n{body(m.group(), names_of(d))}\n*/\n{d.strip()}\n' for d in declarations]
            end = m.end() + paragraph.end()
    out.append(text[end:])
    return ''.join(out)


# ---- Pages --------------------------------------------------------------------------------------

def slug(title):
    """GitHub's name of a title."""
    return re.sub(r'[^\w\- ]', '', title.lower()).replace(' ', '-')


def link(page, text, target):
    name, _, anchor = target.partition('#')
    if target.startswith('http') or re.search(r'\.(svg|png)$', name):
        return f'[{text}]({pathlib.Path(name).name if not target.startswith("http") else target})'
    there = pathlib.Path(page.parent / name) if name else page
    parts = []
    for part in there.parts:
        parts = parts[:-1] if part == '..' else parts + [part]
    label = PAGES.get(pathlib.Path(*parts))
    if label is None:
        return text if parts[0] != 'include' else f'[{text}](@ref {parts[-1]})'
    return f'[{text}](@ref {label}{"_" + anchor if anchor else ""})'


CODE_OR_LINK = re.compile(r'^```.*?^```$|^    [^\n]*$|`[^`\n]+`|\[((?:`[^`\n]*`|[^]`])*)\]\(([^)\s]+)\)',
                          re.DOTALL | re.MULTILINE)


def page_of(path):
    label, titles = PAGES[path], 0

    def title(m):
        nonlocal titles
        titles += 1
        return f'{m.group()} {{#{label if titles == 1 else label + "_" + slug(m.group(2))}}}'
    text = path.read_text(encoding='utf-8')
    parts = re.split(r'(^```.*?^```$)', text, flags=re.DOTALL | re.MULTILINE)
    text = ''.join(p if p.startswith('```') else re.sub(r'^(#+) (.*)$', title, p, flags=re.MULTILINE) for p in parts)
    return CODE_OR_LINK.sub(lambda m: link(path, m.group(1), m.group(2)) if m.group(2) else m.group(), text)


def main():
    path = pathlib.Path(sys.argv[1])
    path = path.relative_to(pathlib.Path.cwd()) if path.is_absolute() else path
    print(header(path) if path.suffix == '.h' else page_of(path))


main()
