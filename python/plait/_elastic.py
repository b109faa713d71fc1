# SPDX-License-Identifier: BSD-3-Clause
"""Elastic averaging: ranks train on their own, and a centre pulls them together."""
import ctypes

import numpy

from . import _arrays
from ._errors import ArgError, Error
from ._library import ElasticCounts, ElasticHandle, ElasticOptions, lib


def options_of(mode, weights, count, period, beta, rho, lr, momentum, payload, servers, threads, reproducible,
               algorithm, name):  # pylint: disable=too-many-arguments
    """The C struct, and the strings that it points to."""
    which = lib.plait_elastic_find(_arrays.text('elastic', 'mode', mode)) if isinstance(mode, str) else -1
    if which < 0:
        raise ArgError(f'elastic: there is no mode {mode!r}; use original, async, async-momentum, hogwild, sync1, '
                       'sync2 or sync3')
    for what, value in ('period', period), ('servers', servers), ('threads', threads):
        if not 0 <= value < 1 << 32:  # ctypes takes what is left of it
            raise ArgError(f'elastic: {what} is {value}; it must be 0 to {(1 << 32) - 1}')
    if payload not in ('float32', 'float16', 'bfloat16'):
        raise ArgError(f'elastic: payload is {payload!r}; use float32, float16 or bfloat16')
    if weights is not None:
        _arrays.check('elastic', 'weights', weights, write=True)
        if weights.dtype != numpy.float32:
            raise ArgError(f'elastic: weights have dtype {weights.dtype}; they must be float32')
        if count not in (None, weights.size):
            raise ArgError(f'elastic: count is {count}, but there are {weights.size} weights; leave it out')
        count = weights.size
    if count is None:
        raise ArgError('elastic: a server gives count, the number of the weights of a worker')
    return ElasticOptions(
        ctypes.sizeof(ElasticOptions), _arrays.text('elastic', 'name', name), which, _arrays.address(weights), count,
        period, (0 if rho else 0.9) if beta is None else beta, rho, lr, momentum,
        lib.plait_dtype_find(payload.encode()), servers, threads, reproducible,
        _arrays.text('elastic', 'algorithm', algorithm))


class Elastic:
    """One rank's weights under elastic averaging. Made by comm.elastic(); <plait/elastic.h> has the equations.

        e = comm.elastic(w, mode='sync3')       w: all layers as one float32 array, of plait.zeros() at best
        e.start(); gradients of w; e.finish()   or e.exchange() between the gradients and the step
        w -= lr * g                             or e.step(g), with options lr and momentum
        e.centre()                              what was trained
    """

    def __init__(self, comm, weights, options):
        self._comm, self._weights, self._count = comm, weights, options.count
        self._free, self._handle = lib.plait_elastic_destroy, ctypes.POINTER(ElasticHandle)()
        lib.plait_elastic_create(comm._open('elastic'), ctypes.byref(options), ctypes.byref(self._handle))

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            self.destroy()
        except Error:
            if kind is None:
                raise  # else the first error is on its way

    def __del__(self):
        if getattr(self, '_handle', None):
            self._free(self._handle)

    def _open(self, name):
        if not self._handle:
            raise ArgError(f'{name}: it was destroyed')
        return self._handle

    def destroy(self):
        """Leave; in modes with servers the other workers go on. Raises the error if it has failed."""
        handle, self._handle = self._handle, ctypes.POINTER(ElasticHandle)()
        lib.plait_elastic_destroy(handle)

    def start(self):
        """Start an exchange of the current weights; until finish() returns they may be read, but not changed."""
        lib.plait_elastic_start(self._open('start'))

    def finish(self):
        """Wait for the exchange, which pulls the weights."""
        lib.plait_elastic_finish(self._open('finish'))

    def exchange(self):
        """start() and finish()."""
        lib.plait_elastic_exchange(self._open('exchange'))

    def step(self, gradient):
        """The local step: w -= lr gradient, or with momentum."""
        _arrays.check('step', 'gradient', gradient)
        if gradient.dtype != numpy.float32 or gradient.size != self._count:
            raise ArgError(f'step: gradient has {gradient.size} elements of {gradient.dtype}; there are {self._count} '
                           'float32 weights')
        lib.plait_elastic_step(self._open('step'), _arrays.address(gradient))

    def set_lr(self, lr):
        """Set the learning rate; in the sync modes with rho every rank calls it."""
        lib.plait_elastic_set_lr(self._open('set_lr'), lr)

    def serve(self):
        """On a server: serve exchanges until every worker has left or died."""
        lib.plait_elastic_serve(self._open('serve'))

    def centre(self, out=None):
        """A copy of the centre; in the sync modes every rank calls it. A server, after serve(): its own part, the rest
        of out stays as it is, or 0."""
        out = numpy.zeros(self._count, numpy.float32) if out is None else out
        _arrays.check('centre', 'out', out, write=True)
        if out.dtype != numpy.float32 or out.size != self._count:
            raise ArgError(f'centre: out has {out.size} elements of {out.dtype}; there are {self._count} float32 '
                           'weights')
        lib.plait_elastic_centre(self._open('centre'), _arrays.address(out))
        return out

    @property
    def counts(self):
        """Counters of this rank: {workers, left, died, exchanges, pull, behind, ...}."""
        out = ElasticCounts()
        lib.plait_elastic_counts(self._open('counts'), ctypes.byref(out))
        return {name: getattr(out, name) for name, _ in ElasticCounts._fields_}
