# SPDX-License-Identifier: BSD-3-Clause
"""Write plan files: collectives of your own, as data (docs/plans.md).

This file needs the standard library only, neither libplait nor NumPy, so it may be copied and used alone.

    from plans import IN, OUT, TMP, Plans

    swap = Plans('allreduce', ranks=2, blocks=1)     # two ranks swap their vectors and add
    for me in range(2):
        r = swap.rank(me)
        r.send(1 - me, IN[0])
        r.recv(1 - me, TMP[0], block=0)
        r.reduce(OUT[0], *((IN[0], TMP[0]) if me == 0 else (TMP[0], IN[0])))
    swap.write('swap.plan')

Write the moves of a rank as if they ran one after the other. The dependencies of each move are derived from the slots
that it reads and writes. The k-th send from s to r on a lane matches the k-th receive at r from s on that lane. The
library proves the plans when it loads the file.
"""
import collections
import typing

__all__ = ['IN', 'OUT', 'TMP', 'Plans', 'Rank', 'Span']

VECTORS = ('allreduce', 'broadcast', 'reduce')  # cut into as many blocks as you like; else there is one for each rank
ROOTED = ('broadcast', 'reduce', 'gather', 'scatter')
OWN = (('allgather', 'in'), ('gather', 'in'), ('reduce_scatter', 'out'), ('scatter', 'out'))  # one block, the rank's
COLLECTIVES = VECTORS + ('reduce_scatter', 'allgather', 'gather', 'scatter', 'alltoall')

Span = collections.namedtuple('Span', 'buffer first n')
Span.__doc__ = 'Slots first .. first + n - 1 of a buffer.'


class _Buffer:
    """IN[3] is one slot, IN[2:5] are three."""

    def __init__(self, name: str):
        self._name = name

    def __getitem__(self, slots: typing.Union[int, slice]) -> Span:
        if isinstance(slots, int):
            return Span(self._name, slots, 1)
        if slots.step is not None or slots.start is None or slots.stop is None or slots.stop <= slots.start:
            raise ValueError(f'{self._name}[{slots.start}:{slots.stop}] must have a first slot and a later end')
        return Span(self._name, slots.start, slots.stop - slots.start)


IN, OUT, TMP = _Buffer('in'), _Buffer('out'), _Buffer('tmp')


def _text(span: Span) -> str:
    last = f'..{span.first + span.n - 1}' if span.n > 1 else ''
    return f'{span.buffer}[{span.first}{last}]'


class Rank:
    """The moves of one rank, in program order."""

    def __init__(self, plans: 'Plans', rank: int):
        self._plans, self._rank = plans, rank
        self._lines: typing.List[str] = []
        self._writer: typing.Dict[typing.Tuple[str, int], int] = {}
        self._readers: typing.Dict[typing.Tuple[str, int], typing.List[int]] = {}
        self.ntmp, self.nlane = 0, 1

    def send(self, peer: int, source: Span, block: typing.Optional[int] = None, lane: int = 0) -> None:
        """Send `source`. block: the first block in it; None: the one that the collective has in this slot."""
        self._add('send', f' to r{peer}', [source], None, block, lane)

    def recv(self, peer: int, to: Span, block: typing.Optional[int] = None, lane: int = 0) -> None:
        """Receive into `to`."""
        self._add('recv', f' from r{peer}', [], to, block, lane)

    def copy(self, to: Span, source: Span, block: typing.Optional[int] = None) -> None:
        """to = source"""
        self._add('copy', '', [source], to, block, 0)

    def reduce(self, to: Span, x: Span, y: Span, block: typing.Optional[int] = None) -> None:
        """to = x op y. Give the lower ranks' operand first, so that all ranks get the same bits."""
        self._add('reduce', '', [x, y], to, block, 0)

    def _block_in(self, span: Span) -> typing.Optional[int]:
        """The block in the first slot of a span; None: TMP may hold any."""
        coll, n = self._plans.coll, self._plans.ranks
        if span.buffer == 'tmp':
            return None
        if coll == 'alltoall':
            return self._rank * n + span.first if span.buffer == 'in' else span.first * n + self._rank
        if (coll, span.buffer) in OWN:
            return self._rank
        return span.first

    def _depend(self, reads: typing.List[Span], write: typing.Optional[Span]) -> typing.List[int]:
        step, on = len(self._lines), set()
        for span in reads:
            for slot in ((span.buffer, span.first + i) for i in range(span.n)):
                on.add(self._writer.get(slot, step))
                self._readers.setdefault(slot, []).append(step)
        for slot in ((write.buffer, write.first + i) for i in range(write.n)) if write else ():
            on.add(self._writer.get(slot, step))
            on.update(self._readers.pop(slot, []))
            self._writer[slot] = step
        return sorted(on - {step})

    def _add(self, verb: str, to_or_from: str, reads: typing.List[Span], write: typing.Optional[Span],
             block: typing.Optional[int], lane: int) -> None:
        spans = ([write] if write else []) + reads
        known = [b for b in map(self._block_in, spans) if b is not None]
        where = f'rank {self._rank} step {len(self._lines)} ({verb})'
        if block is None and not known:
            raise ValueError(f'{where}: TMP may hold any block; give `block`')
        block = known[0] if block is None else block
        if len({s.n for s in spans}) > 1:
            raise ValueError(f'{where}: the spans have different lengths')
        self.ntmp = max([self.ntmp] + [s.first + s.n for s in spans if s.buffer == 'tmp'])
        self.nlane = max(self.nlane, lane + 1)
        operands = ' = ' + ', '.join(map(_text, reads)) if write and reads else ''
        after = self._depend(reads, write)
        self._lines.append(f'r{self._rank} #{len(self._lines)} {verb} {_text(spans[0])}{operands}{to_or_from}' +
                           (f' block {block}' if block != spans[0].first else '') + (f' lane {lane}' if lane else '') +
                           ('   after ' + ', '.join(map(str, after)) if after else ''))

    def text(self) -> str:
        """The plan, in the form of plait-plan show."""
        p = self._plans
        root = f' root {p.root}' if p.coll in ROOTED else ''
        head = (f'plan 1 {p.coll}{root} rank {self._rank} of {p.ranks}, blocks {p.blocks}, tmp {self.ntmp}, '
                f'lanes {self.nlane}, out of place')
        return '\n'.join([head] + self._lines) + '\n'


class Plans:
    """The plans of all ranks of a collective.

    coll    'allreduce', 'broadcast', 'reduce', 'reduce_scatter', 'allgather', 'gather', 'scatter', 'alltoall'
    blocks  into which the vector is cut; only for the first three. The others have one for each rank (for each pair)
    """

    def __init__(self, coll: str, ranks: int, blocks: typing.Optional[int] = None, root: int = 0):
        if coll not in COLLECTIVES:
            raise ValueError(f'{coll}: must be one of {", ".join(COLLECTIVES)}')
        if (blocks is None) == (coll in VECTORS):
            raise ValueError(f'{coll}: {"give" if blocks is None else "leave out"} `blocks`')
        self.coll, self.ranks, self.root = coll, ranks, root
        self.blocks = blocks or (ranks * ranks if coll == 'alltoall' else ranks)
        self._ranks = [Rank(self, r) for r in range(ranks)]

    def rank(self, r: int) -> Rank:
        """The moves of rank r."""
        return self._ranks[r]

    def text(self, name: typing.Optional[str] = None) -> str:
        """The file's text. name: of the algorithm; None: the file's name without '.plan'."""
        return (f'algorithm {name}\n' if name else '') + ''.join(r.text() for r in self._ranks)

    def write(self, path: str, name: typing.Optional[str] = None) -> None:
        """Write the file."""
        with open(path, 'w', encoding='ascii') as file:
            file.write(self.text(name))
