"""Cut a model's operations into subgraphs that one kernel, or a few, could do.

A subgraph is a stretch of the program. Neighbours join where not having to write and read what passes between them
saves most of what the cheaper of the two takes, each taken as the longer of its traffic and its arithmetic. Layers with
weights (products, convolutions) never join each other, unless they work on the same values, as those for queries, keys
and values do; products of two activations may.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

RIDGE = {16: 200.0, 32: 20.0, 8: 400.0}
"""Operations in the time of one byte, by bits of the numbers, of a card such as an H100; the same everywhere, so that a
model has the same subgraphs on every device."""
LEAST_SAVED = 0.6
"""Share of the cheaper neighbour's cost that joining has to save."""
MOST_NODES = 160


@dataclass(frozen=True, slots=True)
class OperationNode:
    """An operation by the names that it reads and makes, those of views resolved.

    `work` is its arithmetic in bytes by `RIDGE`. `roots` are the activations of a layer with weights, else None. What
    is `fixed` depends on no input, such as a mask. What is `foreign` is none of torch's own operations: it stays alone.
    """

    reads: frozenset[str]
    makes: frozenset[str]
    work: float = 0.0
    roots: frozenset[str] | None = None
    fixed: bool = False
    foreign: bool = False


class _Stretch:
    """Nodes `first` to `last`, and the neighbours."""

    def __init__(self, first: int, last: int, reads: frozenset[str], makes: frozenset[str], work: float) -> None:
        self.first, self.last, self.reads, self.makes, self.work = first, last, reads, makes, work
        self.roots: frozenset[str] | None = None
        self.bytes = 0
        self.fixed = self.foreign = False
        self.before: _Stretch | None = None
        self.after: _Stretch | None = None
        self.gone = False

    @property
    def cost(self) -> float:
        return max(self.bytes, self.work, 1.0)


class Partition:
    """Joining of nodes; `sizes` are bytes by name, `last_use` the index of the last node that reads a name."""

    def __init__(self, nodes: Sequence[OperationNode], sizes: Mapping[str, int], last_use: Mapping[str, int]) -> None:
        self._sizes, self._last_use = sizes, last_use
        self._all: list[_Stretch] = []
        for index, node in enumerate(nodes):
            stretch = self._sized(_Stretch(index, index, node.reads, node.makes, node.work))
            stretch.roots, stretch.fixed, stretch.foreign = node.roots, node.fixed, node.foreign
            if self._all:
                stretch.before, self._all[-1].after = self._all[-1], stretch
            self._all.append(stretch)

    def stretches(self) -> list[tuple[int, int]]:
        """Return the first and the last node of each subgraph, in order."""
        heap: list[tuple[float, int, int, _Stretch, _Stretch]] = []
        for stretch in self._all:
            self._offer(heap, stretch)
        while heap:
            _, first, last, a, b = heapq.heappop(heap)
            # One that has grown since has been offered anew.
            if not (a.gone or b.gone) and (a.first, b.last) == (first, last):
                joined = self._join(a, b)
                if joined.before is not None:
                    self._offer(heap, joined.before)
                self._offer(heap, joined)
        self._join_siblings()
        return [(s.first, s.last) for s in self._all if not s.gone]

    def _offer(self, heap: list[tuple[float, int, int, _Stretch, _Stretch]], a: _Stretch) -> None:
        b = a.after
        if b is None or (a.roots is not None and b.roots is not None) or b.last - a.first >= MOST_NODES:
            return
        if a.foreign or b.foreign:  # it would take the task from its neighbours
            return
        if a.fixed != b.fixed:  # it would make one layer of many another subgraph than the others
            return
        saved = a.bytes + b.bytes - self._joined(a, b).bytes
        share = saved / min(a.cost, b.cost)
        if share >= LEAST_SAVED:
            heapq.heappush(heap, (-share, a.first, b.last, a, b))

    def _join(self, a: _Stretch, b: _Stretch) -> _Stretch:
        joined = self._joined(a, b)
        joined.roots, joined.fixed = a.roots if a.roots is not None else b.roots, a.fixed
        joined.before, joined.after = a.before, b.after
        if joined.before is not None:
            joined.before.after = joined
        if joined.after is not None:
            joined.after.before = joined
        a.gone = b.gone = True
        self._all[a.first] = joined
        return joined

    def _joined(self, a: _Stretch, b: _Stretch) -> _Stretch:
        reads = a.reads | (b.reads - a.makes)
        return self._sized(_Stretch(a.first, b.last, reads, a.makes | b.makes, a.work + b.work))

    def _sized(self, s: _Stretch) -> _Stretch:
        kept = (v for v in s.makes if self._last_use.get(v, -1) > s.last)
        s.bytes = sum(self._sizes[v] for v in (*s.reads, *kept))
        return s

    def _join_siblings(self) -> None:
        a = self._all[0] if self._all else None
        while a is not None:
            b = a.after
            alike = b is not None and a.roots is not None and a.roots == b.roots
            a = self._join(a, b) if b is not None and alike and b.last - a.first < MOST_NODES else b
