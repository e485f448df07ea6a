"""A look at the task's own shape without its data: a few programs of each launch, on memory that has sizes only.

Shapes are shrunk before a kernel is run, which hides what goes wrong in large ones: offsets beyond 32 bits, and masks
that fail in the last block. Here every load gives a made-up value, and only the addresses are looked at. A fault counts
where it is the same for two different values, so that what depends on the data accuses nobody.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from forewarp.inspection.emulation.interpreter.memory import (
    Array,
    Change,
    Ledger,
    Mask,
    Memory,
    MemoryFault,
    Part,
    put,
)
from forewarp.inspection.emulation.interpreter.pace import SPINS, Pace

_FILLS = 0, 1
"""Values that loads return in the first and in the second run: valid indices of any table, bounds of short loops."""
_FEW_BITS = 1 << 31


class _Waits(Exception):
    """A program waits for a value that never comes."""


def without_contents(size: int) -> Any:
    """Return so many bytes of which all are one and the same."""
    return np.broadcast_to(np.zeros(1, np.uint8), (size,))


class Hollow(Memory):
    """Memory without contents: loads give `fill`, stores go nowhere, and addresses are looked at."""

    fill = 0

    def add(self, name: str, content: Any, size: int, *, watched: bool, filled: bool = True) -> int:
        """Make a buffer known; nothing but its size is remembered."""
        del watched, filled
        return super().add(name, content, size, watched=False)

    def load(self, addresses: Array, mask: Mask, other: Array, *, volatile: bool = False) -> Array:
        """Return `fill`, or `other` where the mask is false."""
        del volatile
        return self._look(np.array(np.broadcast_to(other, addresses.shape)), addresses, mask, "loads")

    def store(self, addresses: Array, values: Array, mask: Mask) -> None:
        """Look at the addresses."""
        self._look(np.zeros(addresses.shape, values.dtype), addresses, mask, "stores")

    def change(self, addresses: Array, mask: Mask, values: Array, apply: Change, order: tuple[bool, bool]) -> Array:
        """Return `fill` as the old values."""
        del apply, order
        self.atomics += 1
        if self.atomics > SPINS:
            raise _Waits
        return self._look(np.zeros(addresses.shape, values.dtype), addresses, mask, "changes")

    def _look(self, result: Array, addresses: Array, mask: Mask, verb: str) -> Array:
        for part in self._parts(addresses, mask, result.itemsize, verb):
            self._within(part, result.itemsize, verb)
            put(result, part.lanes, np.full(len(part.at), self.fill, result.dtype))
        return result

    def _count_sectors(self, at: Array, width: int, verb: str) -> None:
        """Do nothing: a few programs say little about traffic."""

    def _beyond(self, part: Part, outside: Array, width: int, verb: str) -> str:
        message = super()._beyond(part, outside, width, verb)
        if len(part.buffer.content) // width >= _FEW_BITS and outside.min() < 0:
            return f"{message}; an offset of 2**31 or more does not fit 32 bits: compute it in 64 (.to(tl.int64))"
        return message


def look_at_corners(memory: Hollow, program: Callable[..., None], grid: Sequence[int], pace: Pace) -> None:
    """Run the programs in the corners of a launch's grid; note what is seen in the same way for both made-up values."""
    certain = memory.ledger
    try:
        for place in corners(grid):
            one, other = (_seen(memory, program, place, fill) for fill in _FILLS)
            for key, seen in one.seen.items():
                again = other.seen.get(key)
                if again is not None and again.message == seen.message:
                    certain.note(seen.kind, seen.where, seen.message, seen.count)
            pace.done += 1
    finally:
        memory.ledger = certain


def _seen(memory: Hollow, program: Callable[..., None], place: tuple[int, ...], fill: int) -> Ledger:
    memory.ledger, memory.fill = Ledger(), fill
    memory.begin_program(1, str(place))
    try:
        program(*place)
    except (_Waits, MemoryFault, ArithmeticError):
        return Ledger()  # made-up values may lead anywhere
    return memory.ledger


def corners(grid: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the places in a grid's corners, the last one first."""
    ends = [dict.fromkeys((n - 1, 0)) for n in grid]
    return itertools.product(*ends) if all(grid) else iter(())
