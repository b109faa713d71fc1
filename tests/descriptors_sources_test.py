#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The library makes and closes descriptors by lib/base/descriptor.h only. Usage: descriptors_sources_test.py SOURCE_ROOT"""
import pathlib
import re
import sys

FOLDERS = ('algorithms', 'cuda', 'files', 'include', 'launchers', 'lib', 'nccl', 'simulate', 'topology', 'transports')
OWN = ('lib/base/descriptor.c', 'lib/base/descriptor.h')
# One descriptor, which one of these takes at once.
ONE = (r'socket|accept4?|open(?:at2?|64)?|creat|dup|epoll_create1?|eventfd|timerfd_create|signalfd|memfd_create|memfd_secret|'
       r'inotify_init1?|fanotify_init|userfaultfd|perf_event_open|pidfd_open|pidfd_getfd|shm_open|mq_open|mkostemps?|mkstemps?')
BY_NUMBER = r'fcntl\s*\([^;]*?F_DUPFD|syscall\s*\(\s*(?:SYS|__NR)_(?:pidfd_open|memfd_create|memfd_secret|pidfd_getfd|openat2?|io_uring_setup)'
TAKERS = re.compile(r'plait_descriptor_(?:keep|stream)\s*\((?:[^;]*?[?:]\s*|\s*)(?:\(int\)\s*)?$')
# What makes several, or takes one from elsewhere: its function passes each to plait_descriptor_keep().
SEVERAL = r'socketpair|pipe2?|recvm?msg|dup[23]|openpty'
# A stream or a folder: plait_descriptor_stream(), plait_descriptor_folder().
STREAMS = r'fopen(?:64)?|freopen|fdopen|opendir|fdopendir|popen|tmpfile(?:64)?'

BARE = r'(?<![\w.>])(?:%s)\s*\('


def function_with(text, at):
    start = text.rfind('\n{', 0, at)
    end = text.find('\n}', at)
    return text[start:end]


def stripped(text):
    """Without comments and strings, which keep their length."""
    blank = lambda m: re.sub(r'[^\n]', ' ', m[0])
    return re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S)


def is_kept(text, at):
    before = text[max(0, at - 200):at]
    return TAKERS.search(before[before.rfind(';') + 1:]) is not None


def faults_of(name, text):
    text = stripped(text)
    own = set(re.findall(r'^static [^;={}()]*?\b(\w+)\(', text, flags=re.M))  # functions of the file that have such a name
    for m in re.finditer(BARE % ONE + '|(?<![\\w.>])(?:%s)' % BY_NUMBER, text):
        if re.search(r'[\w*]\s+$', text[:m.start()][-40:]) and not re.search(r'\breturn\s+$', text[:m.start()][-40:]):
            continue  # a declaration or a definition
        call = re.sub(r'\s+', ' ', m[0])
        if m[0].split('(')[0].strip() not in own and not is_kept(text, m.start()):
            yield m.start(), f'{call} makes a descriptor that may be 0, 1 or 2: plait_descriptor_keep() takes it'
    for m in re.finditer(BARE % SEVERAL, text):
        if 'plait_descriptor_keep(' not in function_with(text, m.start()):
            yield m.start(), f'{m[0]} makes descriptors that may be 0, 1 or 2: plait_descriptor_keep() takes each'
    for m in re.finditer(BARE % STREAMS, text):
        yield m.start(), f'{m[0]} opens a file that may be 0, 1 or 2: plait_descriptor_stream() and _folder() do not'
    for m in re.finditer(BARE % 'close|closefrom|close_range', text):
        yield m.start(), f'{m[0]} may close a file of the program: plait_descriptor_close() compares'


def faults(root):
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob('*')):
            name = path.relative_to(root).as_posix()
            if path.suffix in ('.c', '.h') and name not in OWN:
                text = path.read_text()
                for at, what in faults_of(name, text):
                    yield f'{name}:{text.count(chr(10), 0, at) + 1}: {what}'


# What it must find, and what not.
WRONG = ('\n{\n    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);\n}\n', '\n{\n    f(accept4(a, b, c, 0));\n}\n',
         '\n{\n    FILE *f = fopen(path, "re");\n}\n', '\n{\n    return fcntl(fd, F_DUPFD_CLOEXEC, 0);\n}\n',
         '\n{\n    pipe2(ends, O_CLOEXEC);\n}\n', '\n{\n    close(fd);\n}\n', '\n{\n    x = (int)syscall(SYS_pidfd_open, 1, 0);\n}\n',
         '\n{\n    fd = plait_descriptor_keep(a, b);\n    return open(p, O_RDONLY);\n}\n')
RIGHT = ('\n{\n    fd = plait_descriptor_keep(socket(AF_UNIX, SOCK_STREAM, 0), "it");\n}\n', '\n{\n    p->open(q);\n    net.close(q);\n}\n',
         '\n{\n    fd = plait_descriptor_keep(\n        open(path, 0), "it");\n}\n', '\n{\n    /* open() */ plait_descriptor_close(fd);\n}\n')
for text in WRONG:
    assert list(faults_of('x.c', text)), text
for text in RIGHT:
    assert not list(faults_of('x.c', text)), text

found = list(faults(pathlib.Path(sys.argv[1])))
print('\n'.join(found) or 'passed')
sys.exit(bool(found))
