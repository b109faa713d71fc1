# SPDX-License-Identifier: BSD-3-Clause
"""The text of help() on parameters that many calls share."""
import inspect
import textwrap

from ._call import FORMS, OPTIONS

_PARAMETERS = {
    'op': '"sum" (default), "prod", "min", "max", "avg", "premulsum" (with scale=), or a function f(a, b) of two '
          'arrays that returns a third',
    'out': 'array for the result, of x\'s dtype; None (default): in place, in x',
    'root': 'rank of the root; 0 (default)',
    'counts': 'elements of each rank\'s part',
    'out_counts': 'elements of each rank\'s part of out',
    'starts': 'where the parts begin, in elements; None (default): one behind the other',
    'out_starts': 'the same in out',
    'to': 'rank that receives',
    'source': 'rank that sends',
    'dtype': '"bfloat16", "float8e4m3" or "float8e5m2" for arrays of uint16 or uint8 with such bits; None (default): '
             'the arrays\'',
}
_OPTIONS = {
    'algorithm': 'such as "ring" or "torus:4x8" (plait-info --algorithms); None (default): chosen by the library',
    'slice': 'bytes of a pipeline slice; 0 (default): chosen',
    'round': 'rounding of 16- and 8-bit types: "once" at the end, or "hop", at every step; "default": as the comm says',
    'reproducible': 'True: bits that do not depend on the algorithm; False (default): as the comm says',
    'scale': 'op="premulsum": this rank\'s factor; else None (default)',
    'scale_when': '"now" (default): scale is read at the call; "late": when the operation runs, from an array of one '
                  'element',
    'commutative': 'op is a function: True lets the library choose the order of its arguments; False (default)',
    'mark': 'a number that must be equal on all ranks; 0 (default)',
    'deadline': 'seconds until a stall is an error; 0 (default): the comm\'s',
    'wait': 'False: return a plait.Request at once, whose wait() has the result; True (default)',
    'persistent': 'True: do not start, but return a plait.Persistent to be started repeatedly; False (default)',
}
assert set(_OPTIONS) == set(OPTIONS)


def _lines(names, texts):
    return ''.join('\n' + textwrap.fill(f'{name:13} {texts[name]}', 100, subsequent_indent=14 * ' ') for name in names)


def document(comm):
    """Append parameters and options to the text of each call of this class."""
    for method in vars(comm).values():
        if not inspect.isfunction(method) or 'options' not in inspect.signature(method).parameters:
            continue
        names = [name for name in inspect.signature(method).parameters if name in _PARAMETERS]
        options = [name for name in OPTIONS if method.__name__ not in ('send', 'recv') or name in FORMS]
        if 'op' not in names:
            options = [name for name in options if name not in ('scale', 'scale_when', 'commutative')]
        method.__doc__ = inspect.cleandoc(method.__doc__) + '\n' + _lines(names, _PARAMETERS) + \
            '\n\nOptions, by keyword:' + _lines(options, _OPTIONS)
    return comm
