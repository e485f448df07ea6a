"""Order in which programs touched an element: races within one launch, whose programs run one after another here.

Programs are numbered from 1. What one did before it released a single-element atomic, as a lock or a counter, lies
before what another does after acquiring the same one; everything else of two programs is in no order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from forewarp.inspection.emulation.interpreter.numerics import AnyArray

MANY = -1
_MOST_CLOCKS = 1 << 24
"""Numbers that all clocks of a launch may hold together; beyond, atomics put nothing in order."""


class Clocks:
    """Vector clock of the running program: the last release that it has heard of, for each other program."""

    def __init__(self, programs: int) -> None:
        self._programs = programs
        self._released: dict[int, AnyArray] = {}
        self._mine: AnyArray | None = None
        self.me = 0
        self.epoch = 0

    def begin(self, program: int) -> None:
        self.me, self.epoch, self._mine = program, 0, None

    def acquire(self, address: int) -> None:
        """Learn what was released at an address."""
        released = self._released.get(address)
        if released is not None:
            self._mine = released.copy() if self._mine is None else np.maximum(self._mine, released)

    def release(self, address: int) -> None:
        """Publish at an address what the program has done and knows."""
        known = self._released.get(address)
        if known is None:
            if (len(self._released) + 1) * self._programs > _MOST_CLOCKS:
                return
            known = self._released[address] = np.zeros(self._programs + 1, np.int32)
        self.epoch += 1
        if self._mine is not None:
            np.maximum(known, self._mine, out=known)
        known[self.me] = self.epoch

    def heard_of(self, address: int) -> bool:
        """Return whether anything was released at an address."""
        return address in self._released

    def unordered(self, who: AnyArray, epochs: AnyArray) -> npt.NDArray[np.bool_]:
        """Return for each access by another program whether nothing puts it before what happens now."""
        other = (who != 0) & (who != self.me)
        if self._mine is None or not other.any():
            return other
        # Of several programs only one could be asked; where this one has synchronised at all, it is believed.
        known = np.where(who == MANY, np.iinfo(np.int32).max, self._mine[np.maximum(who, 0)])
        return other & (known <= epochs)


class Shadow:
    """Per element of one buffer and for one launch: who wrote it, who read it, who changed it atomically, and when."""

    def __init__(self, elements: int) -> None:
        self._by: dict[str, AnyArray] = {}
        self._when: dict[str, AnyArray] = {}
        self._elements = elements

    def clear(self) -> None:
        """Forget everything: a launch has ended, and what follows comes after it."""
        self._by.clear()
        self._when.clear()

    def unordered(self, what: str, index: AnyArray, clocks: Clocks) -> npt.NDArray[np.bool_] | None:
        """Return which elements another program "wrote", "read" or "changed" in no order with this; None for none."""
        by = self._by.get(what)
        if by is None:
            return None
        races = clocks.unordered(by[index], self._when[what][index])
        return races if races.any() else None

    def first(self, what: str, index: int) -> int:
        """Return the number of the program that is on record for an element, or MANY."""
        return int(self._by[what][index])

    def record(self, what: str, index: AnyArray, clocks: Clocks) -> None:
        """Put down that this program did something to elements."""
        by = self._by.get(what)
        if by is None:
            by = self._by[what] = np.zeros(self._elements, np.int32)
            self._when[what] = np.zeros(self._elements, np.int32)
        when = self._when[what]
        if what == "wrote":
            by[index] = clocks.me
        else:
            before = by[index]
            alone = ~clocks.unordered(before, when[index])
            by[index] = np.where(alone, clocks.me, MANY)
        when[index] = clocks.epoch


def several(values: Any) -> str:
    """Name a program's number as people count them, from 0."""
    return "several" if values == MANY else str(values - 1)
