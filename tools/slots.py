"""A place with several devices, shared out among processes: each measures on one, and may be ended alone."""

from __future__ import annotations

from collections.abc import Callable

from forewarp.core.protocols import Executor
from forewarp.core.values import Task
from forewarp.tools.parts import Place
from forewarp.tools.session import Executors


class SlotExecutors(Executors):
    """The executors of one such process. The first one finds out how many there may be; the others are told."""

    def __init__(self, number: int, found: Callable[[Place, int], None]) -> None:
        """`number` counts from 0; `found` is called with each place that is opened, and its number of devices."""
        super().__init__()
        self._number, self._found = number, found

    def get(self, place: Place, task: Task) -> Executor:
        """Return an executor that measures on this slot's device of the place."""
        if self._number:
            device = f"cuda:{self._number}" if place.device == "cuda:all" else place.device
            return super().get(place.model_copy(update={"device": device}), task)
        # All of them, though one is used: those that are never asked are never started.
        executor = super().get(place, task)
        self._found(place, executor.devices)
        return executor
