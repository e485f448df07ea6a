"""Short programs repeated within one graph: what differs from one graph to the next is shared out among the repeats.

Each repeat gets its inputs copied in, its outputs poisoned and the L2 cache flushed, so that every one does the whole
work on inputs that differ from those of the one before it. Then it is timed between two events that the graph itself
records. How many there are is drawn for each sample: none knows whether it is the one whose outputs are looked at.
"""

from __future__ import annotations

import ctypes
import random
from collections.abc import Sequence
from typing import Protocol

import torch

from forewarp.gpu_runner.lifting import driver
from forewarp.gpu_runner.lifting.driver import Handle
from forewarp.gpu_runner.lifting.graph import Built, Node

LENGTHS = (3, 6, 6, 9, 9, 9, 9, 14, 14, 14, 14, 14)
"""Repeats in each of the graphs that samples draw from.

Equal graphs differ by up to 0.1 µs a launch for as long as they live: with many, that is noise and no bias.
"""
UNREAD = 4
"""Samples whose times may still be asked for when the next one is drawn: no graph runs again before."""
SETS, SET_BYTES = 14, 256 << 20
"""Sets of inputs that the repeats rotate among, and the bytes that all of them may take."""
POISON = 0xFF
_DEVICE = 2


class Repeatable(Protocol):
    """Something whose work on a slot is a graph."""

    def ready(self) -> list[Node]:
        """Return what makes scratch ready before each call, and is not timed."""
        ...

    def add_to(self, graph: Built, slot: int = 0) -> None:
        """Append the work to a graph."""
        ...


def copy(source: torch.Tensor, target: torch.Tensor) -> Node:
    """Return a node that copies one dense tensor over another one of the same layout."""
    node = driver.CopyNode()
    node.source.kind, node.source.device = _DEVICE, source.data_ptr()
    node.target.kind, node.target.device = _DEVICE, target.data_ptr()
    node.width, node.height, node.depth = target.nbytes, 1, 1
    return Node("copy", parameters=bytes(node).hex())


def fill(target: torch.Tensor, value: int) -> Node:
    """Return a node that sets every byte of a dense tensor."""
    node = driver.MemsetNode(target.data_ptr(), 0, value, 1, target.nbytes, 1)
    return Node("fill", parameters=bytes(node).hex())


class Repeats:
    """A graph of so many repeats, and the events around each of them."""

    def __init__(self) -> None:
        self.graph = Built()
        self._marks: list[tuple[Handle, Handle]] = []
        self._turn = 0

    def add(self, before: Sequence[Node], work: Repeatable, slot: int) -> None:
        """Append a repeat: what comes before it, which is not timed, and the work."""
        for node in before:
            self.graph.add([node], [], [Handle()])
        begin, end = _event(), _event()
        self._marks.append((begin, end))
        self.graph.mark(begin)
        work.add_to(self.graph, slot)
        self.graph.mark(end)

    def launch(self, stream: int) -> int:
        """Enqueue all repeats; returns what `seconds` is to be told."""
        self.graph.launch(stream)
        self._turn += 1
        return self._turn

    def seconds(self, turn: int) -> float:
        """Return the mean seconds of one repeat, once all have run; raises RuntimeError where they ran again since."""
        if turn != self._turn:
            raise RuntimeError("a sample of a chain was read too late")
        total, each = 0.0, ctypes.c_float()
        for begin, end in self._marks:
            driver.call("cuEventElapsedTime", ctypes.byref(each), begin, end)
            total += each.value / 1e3
        return total / len(self._marks)

    def close(self) -> None:
        """Free graph and events."""
        self.graph.close()
        for event in (e for pair in self._marks for e in pair):
            driver.status("cuEventDestroy_v2", event)


def _event() -> Handle:
    event = Handle()
    driver.call("cuEventCreate", ctypes.byref(event), 0)
    return event


class Chain:
    """One arm's work on one slot, repeated; `inputs` and `outputs` are its buffers there.

    `restored` are pairs of what state is to be before each call, and where it lies.
    `flush` is a buffer that, once written, has pushed everything else out of the L2 cache; None leaves the cache warm.
    """

    def __init__(
        self,
        work: Repeatable,
        slot: int,
        inputs: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor],
        flush: torch.Tensor | None,
        restored: Sequence[tuple[torch.Tensor, torch.Tensor]] = (),
    ) -> None:
        self._inputs = [t for t in inputs if t.numel()]
        size = sum(t.nbytes for t in self._inputs)
        count = max(2, min(SETS, SET_BYTES // max(size, 1)))
        self._sets = [[t.clone() for t in self._inputs] for _ in range(count)]
        self._all: list[Repeats] = []
        for length in random.sample(LENGTHS, len(LENGTHS)):
            repeats = Repeats()
            for position in range(length):
                # The last repeat is the one whose inputs are new, and whose outputs may be looked at.
                chosen = self._sets[(length - 1 - position) % count]
                # First, because an output may lie in an input.
                nodes = [fill(o, POISON) for o in outputs if o.numel()]
                nodes += [copy(source, target) for source, target in zip(chosen, self._inputs, strict=True)]
                nodes += [copy(source, target) for source, target in restored if target.numel()]
                nodes += work.ready()
                nodes += [fill(flush, position & 1)] if flush is not None else []
                repeats.add(nodes, work, slot)
            self._all.append(repeats)

    def renew(self) -> None:
        """Take the inputs that lie in the slot now for the last repeat; those before move on, a little smaller.

        So no repeat gets inputs that any call has seen.
        """
        for older, newer in zip(reversed(self._sets[1:]), reversed(self._sets[:-1]), strict=True):
            _overwrite(older, newer)
            for tensor in older:
                if tensor.is_floating_point() and tensor.element_size() > 1:
                    tensor.mul_(1.0 - random.random() / 64)
        _overwrite(self._sets[0], self._inputs)

    def draw(self) -> Repeats:
        """Return the repeats of the next sample: none of the last `UNREAD`."""
        drawn = self._all.pop(random.randrange(len(self._all) - UNREAD))
        self._all.append(drawn)
        return drawn

    def close(self) -> None:
        """Free the graphs."""
        for repeats in self._all:
            repeats.close()


def _overwrite(targets: Sequence[torch.Tensor], sources: Sequence[torch.Tensor]) -> None:
    for target, source in zip(targets, sources, strict=True):
        target.copy_(source)
