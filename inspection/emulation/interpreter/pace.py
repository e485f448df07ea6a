"""Inputs and time limits of the confined side."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from forewarp.inspection.emulation.scene import Scene, ShapeOnly
from forewarp.inspection.jobs import CheckJob

_LOOK_AFTER_S = 0.3
"""Seconds after which it is worth a guess how long all programs will take."""
SPINS = 1000
"""Atomic operations in one program from which on it is taken to wait for another."""


class CheckOutOfTime(BaseException):
    """The time of a case is over, at a line. No Exception, so that a kernel's own `except` does not catch it."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


class TooSlow(Exception):
    """All programs would take `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class Pace:
    """Counts programs, and says when it is time to stop."""

    def __init__(self, limit_s: float, sample: bool) -> None:
        self.limit_s, self.sample = limit_s, sample
        self.grid = self.done = 0
        self.partial = False
        self.started = self.program_started = self._second_started = time.monotonic()

    def order(self, count: int) -> Iterator[int]:
        """Yield numbers of programs of a launch: all in turn, or, for a sample, the ends first and then all over."""
        if not self.sample or count < 3:
            yield from range(count)
            return
        yield from (0, count - 1)
        step = round(count * 0.6180339887) | 1
        while np.gcd(step, count) != 1:
            step += 2
        yield from (n for i in range(1, count) if (n := i * step % count) not in (0, count - 1))

    def go_on(self) -> bool:
        """Return whether the next program may run; raises `TooSlow`."""
        self.program_started = time.monotonic()
        spent = self.program_started - self.started
        if self.sample:
            self.partial = self.partial or (self.done > 0 and spent > 0.8 * self.limit_s)
            return not self.partial
        if self.done == 1:
            self._second_started = self.program_started
        if self.done > 1 and spent > _LOOK_AFTER_S and self.estimate() > 1.2 * self.limit_s:
            raise TooSlow(self.estimate())
        return True

    def estimate(self) -> float:
        """Return the seconds that all programs will take; the first one, which prepares things, does not count."""
        if self.done < 2:
            return (time.monotonic() - self.started) * self.grid
        each = (self.program_started - self._second_started) / (self.done - 1)
        return self._second_started - self.started + each * self.grid


@dataclass(frozen=True, slots=True)
class ChildSetup:
    """Inputs of the confined process; it may change the scene's buffers and the files in `folder`, and nothing else."""

    folder: str
    job: CheckJob
    scene: Any
    """A `Scene`, or a `ShapeOnly`."""

    @property
    def own_shape(self) -> bool:
        """True if there are no values."""
        return isinstance(self.scene, ShapeOnly) and not isinstance(self.scene, Scene)
