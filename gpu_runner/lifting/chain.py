"""Repeats of a short program within one graph, so that a difference between graphs is shared by many repeats.

A graph of n repeats is timed against one that does all the same but the program. Each repeat gets its inputs copied in,
its outputs poisoned and the L2 cache flushed, so that every one does the whole work on inputs that differ from those of
the one before it. How many there are is drawn for each sample: no repeat can be skipped unseen. Events of the graph
itself around each repeat would do without the second graph, and halve the noise of a repeat; but what an event adds
differs by 0.05 µs from one graph to an equal one, for as long as they live.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol

import torch

from forewarp.gpu_runner.lifting import driver
from forewarp.gpu_runner.lifting.driver import Handle
from forewarp.gpu_runner.lifting.graph import Built, GraphNode

GRAPHS = 6
"""Graphs that samples draw from, of different lengths: equal ones differ for as long as they live."""
LEAST, MOST, SAMPLE_S, FLUSH_S = 8, 28, 1.5e-3, 45e-6
"""Repeats of the longest graph, at least and at most; the seconds that it is to take, and those of one flush.

What a graph as a whole adds is shared out among its repeats, so that long ones are worth more than many.
"""
SET_BYTES = 256 << 20
"""Bytes that the sets of inputs, which the repeats rotate among, may take."""
POISON = 0xFF
_DEVICE = 2


class Repeatable(Protocol):
    """Work on a slot that can be added to a graph."""

    def ready(self) -> list[GraphNode]:
        """Return the nodes that prepare scratch before each call, which are not timed."""
        ...

    def add_to(self, graph: Built, slot: int = 0) -> None: ...


def lengths(each_s: float) -> list[int]:
    """Return the number of repeats of each graph, for work that takes so many seconds."""
    longest = max(LEAST, min(MOST, round(SAMPLE_S / (each_s + FLUSH_S))))
    return [longest - i * max(1, longest // 14) for i in range(GRAPHS)]


def copy(source: torch.Tensor, target: torch.Tensor) -> GraphNode:
    node = driver.CopyNode()
    node.source.kind, node.source.device = _DEVICE, source.data_ptr()
    node.target.kind, node.target.device = _DEVICE, target.data_ptr()
    node.width, node.height, node.depth = target.nbytes, 1, 1
    return GraphNode("copy", parameters=bytes(node).hex())


def fill(target: torch.Tensor, value: int) -> GraphNode:
    node = driver.MemsetNode(target.data_ptr(), 0, value, 1, target.nbytes, 1)
    return GraphNode("fill", parameters=bytes(node).hex())


class Chain:
    """One arm's work on one slot, repeated; `inputs` and `outputs` are its buffers there.

    `restored` are pairs of initial state and the buffer into which it is copied before each call. A `flush` that is
    written has pushed all else out of the L2 cache; None leaves the cache warm. `lengths` are the repeats of each
    graph.
    """

    def __init__(
        self,
        work: Repeatable,
        slot: int,
        inputs: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor],
        flush: torch.Tensor | None,
        lengths: Sequence[int],
        restored: Sequence[tuple[torch.Tensor, torch.Tensor]] = (),
    ) -> None:
        self._inputs = [t for t in inputs if t.numel()]
        size = sum(t.nbytes for t in self._inputs)
        count = max(2, min(max(lengths), SET_BYTES // max(size, 1)))
        self._sets = [t.unsqueeze(0).repeat(count, *(1 for _ in t.shape)) for t in self._inputs]
        self._graphs: list[tuple[int, Built, Built]] = []
        for length in random.sample(lengths, len(lengths)):
            alone, whole = Built(), Built()
            for position in range(length):
                # The last repeat is the one whose inputs are new, and whose outputs may be looked at.
                chosen = [sets[(length - 1 - position) % count] for sets in self._sets]
                # First, because an output may lie in an input.
                nodes = [fill(o, POISON) for o in outputs if o.numel()]
                nodes += [copy(source, target) for source, target in zip(chosen, self._inputs, strict=True)]
                nodes += [copy(source, target) for source, target in restored if target.numel()]
                nodes += work.ready()
                nodes += [fill(flush, position & 1)] if flush is not None else []
                for graph in (alone, whole):
                    for node in nodes:
                        graph.add([node], [], [Handle()])
                work.add_to(whole, slot)
            for graph in (alone, whole):
                graph.upload(torch.cuda.current_stream().cuda_stream)
            self._graphs.append((length, alone, whole))

    def renew(self) -> None:
        """Give the last repeat the slot's inputs, those before it the earlier ones scaled down: no call saw any."""
        for sets, newest in zip(self._sets, self._inputs, strict=True):
            moved = sets[:-1].clone()
            if moved.is_floating_point() and moved.element_size() > 1:
                shrunk = torch.empty(len(moved), device=moved.device).uniform_(1 - 1 / 64, 1 - 1 / 256)
                moved.mul_(shrunk.view(-1, *(1 for _ in newest.shape)))
            sets[1:] = moved
            sets[0] = newest

    def draw(self) -> tuple[int, Built, Built]:
        """Draw a graph for the next sample; return its repeats, the graph without the program, and the one with it."""
        return random.choice(self._graphs)

    def close(self) -> None:
        for _, *graphs in self._graphs:
            for graph in graphs:
                graph.close()
