#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Which all-reduce is the fastest on a cluster that does not exist yet, and what do slower uplinks of its racks cost?

No rank is started: the simulator runs their plans.

    pip install . && python3 examples/simulate.py
"""
import plait

ALGORITHMS = ['ring', 'halving-doubling', 'double-tree', 'hierarchy']
SIZES = [4 << 10, 256 << 10, 16 << 20]


def cluster(uplink):
    """Two racks of four hosts of four ranks."""
    return plait.Machine({
        'name': 'two racks of four hosts', 'copy': '10 GB/s', 'reduce': '8 GB/s',
        'levels': [
            # Ranks of a host read each other's memory.
            {'name': 'host', 'children': 4, 'bandwidth': '10 GB/s', 'latency': '200 ns', 'overhead': '100 ns',
             'memory': '40 GB/s'},
            # A NIC for each host, and one uplink for each rack.
            {'name': 'rack', 'children': 4, 'links': 1, 'bandwidth': '100 Gbit/s', 'latency': '2 us',
             'overhead': '500 ns'},
            {'name': 'cluster', 'children': 2, 'links': 1, 'bandwidth': uplink, 'latency': '3 us',
             'overhead': '500 ns'},
        ],
    })


def main():
    full, slow = cluster('50 GB/s'), cluster('25 Gbit/s')
    forecast = plait.Forecast(full, algorithms=ALGORITHMS)  # it keeps what it has simulated
    print(f'{full.name}, {full.ranks} ranks: microseconds')
    print('bytes'.ljust(18) + ''.join(f'{nbytes:10}' for nbytes in SIZES))
    for algorithm in ALGORITHMS:
        print(algorithm.ljust(18) + ''.join(f'{1e6 * forecast.time(algorithm, n).time:10.1f}' for n in SIZES))

    print('\nwith uplinks of 3.125 instead of 50 GB/s')
    for nbytes in SIZES:
        best, p = forecast.fastest(nbytes)
        slower = plait.simulate(slow, best, nbytes=nbytes)
        assert slower.time >= p.time
        print(f'{nbytes:10} bytes: {best} takes {slower.time / p.time:.2f} times as long; {slower.busiest} is busy '
              f'for {slower.bound / slower.time:.0%} of that')

    # What happens, event by event: the message that takes longest.
    p = plait.simulate(slow, 'ring', nbytes=SIZES[-1], events=True)
    m = max((e for e in p.events if e.kind == 'transfer'), key=lambda e: e.end - e.start)
    print(f'the slowest of {p.messages} messages of ring: rank {m.rank} to {m.peer}, {m.bytes} bytes, '
          f'{1e6 * (m.end - m.start):.0f} us')


if __name__ == '__main__':
    main()
