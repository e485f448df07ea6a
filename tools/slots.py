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
        if place.executor.startswith("ray:") and not place.card:
            return self._of_cluster(place)
        if self._number:
            device = f"cuda:{self._number}" if place.device == "cuda:all" else place.device
            return super().get(place.model_copy(update={"device": device}), task)
        # All of them, though one is used: those that are never asked are never started.
        executor = super().get(place, task)
        # The cluster that comes with `ray` alone is started, and ended, by whoever opens it.
        self._found(place, executor.devices if place.executor.partition(":")[0] != "ray" else 1)
        return executor

    def _of_cluster(self, place: Place) -> Executor:
        """Return an executor with one device of a cluster: who opened all would leave none for the others."""
        from forewarp.gpu_runner.remote.over_ray import free_devices, open_ray

        key = ("slot", place.executor, place.device, place.python or "")
        address = place.executor.partition(":")[2]

        def opened() -> Executor:
            if not self._number:
                self._found(place, max(1, free_devices(address, place.device)[1]))
            return open_ray(address, place.device, python=place.python, most=1)

        return self._kept(key, opened)
