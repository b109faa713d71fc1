# SPDX-License-Identifier: BSD-3-Clause
"""A user's program as mypy --strict sees it: tests/wheel_test.sh checks and runs it."""
from __future__ import annotations

import pathlib

import numpy
import numpy.typing
import plait

Array = numpy.typing.NDArray[numpy.float32]


def average(gradient: Array) -> Array:
    launch = plait.launch()
    with plait.Comm.create(launch.nrank, launch.rank, launch.id, name='typed') as comm:
        mean: Array = comm.allreduce(gradient, op='avg')
        request = comm.allreduce(gradient, wait=False)
        request.wait()
        comm.barrier()
        part = comm.split(color=comm.rank % 2)
        if part is not None:
            part.destroy()
    return mean


def main() -> None:
    x: Array = plait.zeros(4, numpy.float32)
    x += 2
    try:
        print(plait.version(), average(x).tolist())
        average(numpy.ones(0, numpy.float32))
    except plait.PeerError as error:
        print(error)
    machines = pathlib.Path(plait.__file__).parent / '_prefix/share/plait/machines'
    prediction = plait.simulate(plait.Machine(machines / 'abci.json'), 'ring')
    print(prediction.time > 0)


main()
