"""A clock that only a test or its device moves: how quick the machine is changes nothing."""

from __future__ import annotations

import pytest
from support.synthetic_executor import Asked, SyntheticExecutor

from forewarp.core.values import Measurement
from forewarp.search import run


class Clock:
    """Stands for `time` in a module that asks it for nothing else."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


class Timed(SyntheticExecutor):
    """A device whose measurements take, on its clock, as long as they say; nothing else takes any time."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def answer(self, asked: Asked) -> Measurement:
        found = super().answer(asked)
        self._clock.now += found.device_s
        return found


def timed(patch: pytest.MonkeyPatch) -> Timed:
    """Return such a device, and have runs read its clock."""
    clock = Clock()
    patch.setattr(run, "time", clock)
    return Timed(clock)
