# SPDX-License-Identifier: BSD-3-Clause
"""The library's errors as PyTorch's: plait.PeerError is told as an exception that is a RuntimeError as well."""
from __future__ import annotations

import re

import torch.distributed

from .._errors import BY_NAME, CLASSES

_Torch = getattr(torch.distributed, 'DistBackendError', RuntimeError)
_MEANT = {c: type(c.__name__, (c, _Torch), {'__doc__': c.__doc__, '__module__': __name__}) for c in CLASSES.values()}
globals().update({c.__name__: c for c in _MEANT.values()})  # pickle looks for them here
ArgError, TimeoutError, UnsupportedError = (  # pylint: disable=redefined-builtin
    _MEANT[BY_NAME['PLAIT_ERR_' + name]] for name in ('ARG', 'TIMEOUT', 'UNSUPPORTED'))


# A tag travels before its message, as one of this size and type.
_TAG = re.compile(r'rank (\d+) sends 8 float8e5m2, rank (\d+) receives')
_NO_TAG = re.compile(r'rank (\d+) sends [^,]*, rank (\d+) receives 8 float8e5m2')


def _explained(text: str) -> str:
    for pattern, one, other in ((_TAG, 'a tag', 'none'), (_NO_TAG, 'no tag', 'one')):
        found = pattern.search(text)
        if found:
            return f'{text} (rank {found[1]} sent with {one}, this recv of rank {found[2]} has {other})'
    return text


def meant(error: BaseException) -> BaseException:
    """This error of the library as one of PyTorch's, others as they are."""
    known = _MEANT.get(type(error))
    return error if known is None else known(*map(_explained, error.args)).with_traceback(error.__traceback__)
