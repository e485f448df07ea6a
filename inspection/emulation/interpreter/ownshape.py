"""A look at the task's own shape without its data: a few programs of each launch, on memory that has sizes only.

Shapes are shrunk before a kernel is run, which hides what goes wrong in large ones: offsets beyond 32 bits, and masks
that fail in the last block. Here every load gives a made-up value, and only the addresses are looked at. A fault counts
where it is the same for two different values, so that what depends on the data accuses nobody. What these programs
store tells how much all of them can write at most: a grid may be too small to fill an output.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from forewarp.inspection.emulation.interpreter.memory import (
    AnyArray,
    Change,
    Ledger,
    Mask,
    Memory,
    MemoryFault,
    SourcePlace,
    WindowLanes,
    put,
)
from forewarp.inspection.emulation.interpreter.pace import SPINS, Pace

_FILLS = 0, 1
"""Values that loads return in the first and in the second run: valid indices of any table, bounds of short loops."""
_FEW_BITS = 1 << 31

Stores = dict[int, list[tuple[float, int, int]]]
"""Stores of one program by the buffer's address: their bytes, and the first and the last element."""
_UNKNOWN = math.inf, 0, 0


class _Waits(Exception):
    """A program waits for a value that never comes."""


def without_contents(size: int) -> Any:
    """Return so many bytes of which all are one and the same."""
    return np.broadcast_to(np.zeros(1, np.uint8), (size,))


class SizedMemory(Memory):
    """Memory without contents: loads give `fill`, stores go nowhere, and addresses are looked at."""

    fill = 0

    def __init__(self, place: Callable[[str], SourcePlace]) -> None:
        super().__init__(place)
        self.stored: Stores = {}
        self.room: dict[int, float] = {}
        """The most bytes that all launches can write to a buffer, by its address; infinite where that is not known."""

    def add(self, name: str, content: Any, size: int, *, watched: bool, filled: bool = True) -> int:
        """Make a buffer known; nothing but its size is remembered."""
        del watched, filled
        return super().add(name, content, size, watched=False)

    def load(self, addresses: AnyArray, mask: Mask, other: AnyArray, *, volatile: bool = False) -> AnyArray:
        """Return `fill`, or `other` where the mask is false."""
        del volatile
        return self._look(np.array(np.broadcast_to(other, addresses.shape)), addresses, mask, "loads")

    def store(self, addresses: AnyArray, values: AnyArray, mask: Mask) -> None:
        width = values.dtype.itemsize
        for part in self._parts(addresses, mask, width, "stores"):
            _, index = self._within(part, width, "stores")
            if index.size:
                stores = self.stored.setdefault(part.buffer.base, [])
                stores.append((len(np.unique(index)) * width, int(index.min()), int(index.max())))

    def change(
        self, addresses: AnyArray, mask: Mask, values: AnyArray, apply: Change, order: tuple[bool, bool]
    ) -> AnyArray:
        """Return `fill` as the old values."""
        del apply, order
        self.atomics += 1
        if self.atomics > SPINS:
            raise _Waits
        for part in self._parts(addresses, mask, values.dtype.itemsize, "changes"):
            self.stored.setdefault(part.buffer.base, []).append(_UNKNOWN)
        return self._look(np.zeros(addresses.shape, values.dtype), addresses, mask, "changes")

    def _look(self, result: AnyArray, addresses: AnyArray, mask: Mask, verb: str) -> AnyArray:
        for part in self._parts(addresses, mask, result.itemsize, verb):
            self._within(part, result.itemsize, verb)
            put(result, part.lanes, np.full(len(part.at), self.fill, result.dtype))
        return result

    def _count_sectors(self, at: AnyArray, width: int, verb: str) -> None:
        """Do nothing: a few programs say little about traffic."""

    def _beyond(self, part: WindowLanes, outside: AnyArray, width: int, verb: str) -> str:
        message = super()._beyond(part, outside, width, verb)
        if len(part.buffer.content) // width >= _FEW_BITS and outside.min() < 0:
            return f"{message}; an offset of 2**31 or more does not fit 32 bits: compute it in 64 (.to(tl.int64))"
        return message


def look_at_corners(memory: SizedMemory, program: Callable[..., None], grid: Sequence[int], pace: Pace) -> None:
    """Run the programs in a grid's corners and middle; note what both made-up values show, and add to `room`."""
    certain, most = memory.ledger, dict[int, float]()
    try:
        for place in corners_and_middle(grid):
            (one, stored), (other, restored) = (_seen(memory, program, place, fill) for fill in _FILLS)
            for key, seen in one.seen.items():
                again = other.seen.get(key)
                if again is not None and again.message == seen.message:
                    certain.note(seen.kind, seen.where, seen.message, seen.count)
            for base in {*stored, *restored}:
                stores = stored.get(base, []) if stored.get(base) == restored.get(base) else [_UNKNOWN]
                most[base] = max(most.get(base, 0), sum(size for size, _, _ in stores))
            pace.done += 1
    finally:
        memory.ledger = certain
    for base, size in most.items():
        memory.room[base] = memory.room.get(base, 0) + size * math.prod(grid)


def _seen(
    memory: SizedMemory, program: Callable[..., None], place: tuple[int, ...], fill: int
) -> tuple[Ledger, Stores]:
    """Run a program on memory that is full of one value; return what it did wrong and what it stored."""
    memory.ledger, memory.fill, memory.stored = Ledger(), fill, {}
    memory.begin_program(1, str(place))
    try:
        program(*place)
    except (_Waits, MemoryFault, ArithmeticError):  # made-up values may lead anywhere
        return Ledger(), {buffer.base: [_UNKNOWN] for buffer in memory.buffers}
    return memory.ledger, memory.stored


def corners_and_middle(grid: Sequence[int]) -> list[tuple[int, ...]]:
    """Return a grid's corners, the last first, and its middle, whose overflow the corner may hide."""
    if not all(grid):
        return []
    ends = [(n - 1, 0) for n in grid]
    return list(dict.fromkeys([*itertools.product(*ends), tuple(n // 2 for n in grid)]))
