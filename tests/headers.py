# SPDX-License-Identifier: BSD-3-Clause
"""The public headers as data, for tests that compare them with something."""
import glob
import os
import re

COMMENT = re.compile(r'/\*.*?\*/', re.DOTALL)
DECLARATION = re.compile(r'^PLAIT_API\s+([^;]*);', re.MULTILINE)
NAME = re.compile(r'(plait_\w+)(\[\]|\s*\(|$)')


def squeeze(text):
    """One space between words, none around stars."""
    return re.sub(r'\s*\*\s*', '*', ' '.join(text.split()))


class Function:
    """A declaration of a public function (or of a variable, which has no parameters)."""

    def __init__(self, path, text):
        name = NAME.search(text)
        self.header, self.name = os.path.basename(path), name.group(1)
        self.returns = squeeze(text[:name.start()])
        self.is_variable = not name.group(2).endswith('(')
        inside = '' if self.is_variable else text[name.end():text.rindex(')')]
        self.parameters = [] if squeeze(inside) in ('', 'void') else \
            [squeeze(p) for p in re.split(r',(?![^(]*\))', inside)]
        self.comment = ''  # its own, or that of the declarations it is in one paragraph with
        self.group = ''    # the nearest comment above that stands alone


def functions_of(path):
    with open(path, encoding='utf-8') as file:
        text = file.read()
    items = sorted([(m.start(), m.end(), None) for m in COMMENT.finditer(text)] +
                   [(m.start(), m.end(), m.group(1)) for m in DECLARATION.finditer(text)])
    found, comment, group, end = [], '', '', 0
    for start, stop, declaration in items:
        if text[end:start].strip() or '\n\n' in text[end:start]:
            comment = ''
        if declaration is None:
            comment = text[start:stop]
            alone = text[start - 1] == '\n' and text.startswith(('\n\n', '\n#ifndef'), stop)
            if alone and not comment.startswith('/* --'):
                group = comment
        else:
            function = Function(path, declaration)
            function.comment, function.group = comment, group
            found.append(function)
        end = stop
    return found


def paths(folders):
    return sorted(path for folder in folders for path in glob.glob(os.path.join(folder, '*.h')))


def functions(folders):
    return [f for path in paths(folders) for f in functions_of(path)]


def code(folders):
    """All headers without their comments."""
    text = ''
    for path in paths(folders):
        with open(path, encoding='utf-8') as file:
            text += COMMENT.sub('', file.read())
    return text


def rows(folders, name):
    """An X-list: [['PLAIT_OK', '0', '"success"'], ...]."""
    body = re.search(r'#define ' + name + r'\(X\)((?:.*\\\n)*.*\n)', code(folders)).group(1)
    return [[field.strip() for field in row.split(',', 2)] for row in re.findall(r'X\((.*?)\)(?=\s*\\?\n)', body)]


def enumerators(folders, name):
    """The names of an enum without values, in order."""
    body = re.search(r'enum ' + name + r'\s*{([^}]*)}', code(folders)).group(1)
    return [line.strip() for line in body.split(',') if line.strip()]


def fields(folders, name):
    """The members of a struct: [('size_t', 'size'), ...]. A function pointer is ('(*)', NAME)."""
    body = re.search(r'struct ' + name + r'\s*{([^}]*)}', code(folders)).group(1)
    found = []
    for member in filter(None, map(str.strip, body.split(';'))):
        pointer = re.search(r'\(\*(\w+)\)', member)
        if pointer:
            found.append(('(*)', pointer.group(1)))
            continue
        first, *more = squeeze(member).split(',')
        kind, plain, size = re.match(r'(.*?)(\w+)(\[\w+\])?$', first).groups()
        found += [(kind.strip() + number(folders, size or ''), name.strip()) for name in [plain, *more]]
    return found


def number(folders, size):
    """"[PLAIT_MAX_PARAM]" with its number."""
    value = re.search(rf'#define {size[1:-1]}\s+(\d+)\b', code(folders)) if size[1:2].isalpha() else None
    return f'[{value.group(1)}]' if value else size
