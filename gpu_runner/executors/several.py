"""Devices of this machine by name: one executor, or one over several GPUs of a kind, which take candidates in turn."""

from __future__ import annotations

import queue
import sys
from collections.abc import Callable, Sequence

from forewarp.core.errors import UsageError
from forewarp.core.protocols import Executor, SeedMaker, Subject, Tracer, VersionProbe
from forewarp.core.validation import Validator, WorkloadReport
from forewarp.core.values import Build, Candidate, Evidence, Measurement, Signature, Target, Task
from forewarp.gpu_runner import devices
from forewarp.gpu_runner.executors.local import Limits, LocalExecutor


class SeveralExecutor:
    """Implements `protocols.Executor` over executors that share one target and one cache of builds.

    Candidate and anchor are always timed on the same device; where all are taken, `measure` waits for a free one.
    """

    def __init__(self, executors: Sequence[Executor]) -> None:
        names = {e.target.name for e in executors}
        if len(names) != 1:
            raise ValueError(f"results of different devices do not mix: {sorted(names)}")
        self._executors = tuple(executors)
        # The last one that measured comes first: where one at a time is asked for, the others never start.
        self._free: queue.LifoQueue[Executor] = queue.LifoQueue()
        for executor in reversed(executors):
            self._free.put(executor)

    @property
    def target(self) -> Target:
        return self._executors[0].target

    @property
    def devices(self) -> int:
        return len(self._executors)

    def probe(self) -> dict[str, str]:
        first = self._executors[0]
        return first.probe() if isinstance(first, VersionProbe) else {}

    def candidates(self, task: Task) -> tuple[Candidate, ...] | None:
        return self._executors[0].candidates(task)

    def describe(self, task: Task) -> tuple[Signature, ...]:
        return self._executors[0].describe(task)

    def compile(self, task: Task, candidate: Candidate) -> Build:
        return self._executors[0].compile(task, candidate)

    def evidence(self, task: Task, candidate: Candidate) -> Evidence | None:
        first = self._executors[0]
        return first.evidence(task, candidate) if isinstance(first, Tracer) else None

    def make_seeds(self, task: Task) -> tuple[Candidate, ...]:
        first = self._executors[0]
        return first.make_seeds(task) if isinstance(first, SeedMaker) else ()

    def measure(
        self, task: Task, candidate: Candidate, build: Build, against: Subject | None = None, beat: float | None = None
    ) -> Measurement:
        executor = self._free.get()
        try:
            return executor.measure(task, candidate, build, against, beat)
        finally:
            self._free.put(executor)

    def validate(self, task: Task, started: Callable[[str], None] = lambda _: None) -> tuple[WorkloadReport, ...]:
        executor = self._free.get()
        try:
            if not isinstance(executor, Validator):
                raise UsageError("these devices cannot validate a task")
            return executor.validate(task, started)
        finally:
            self._free.put(executor)

    def close(self) -> None:
        for executor in self._executors:
            executor.close()


def open_local(
    device: str,
    *,
    python: str | None = None,
    limits: Limits | None = None,
    begun: Callable[[Executor], None] = lambda _: None,
) -> Executor:
    """Return a probed executor for "auto", "cuda", "cuda:N", "cuda:all" or "cpu".

    `begun` gets each card's executor before it starts a process; closing it ends the probing, with a `WorkerError`.
    Raises `UsageError` for another name and `DeviceError` that says what is missing.
    """
    target = devices.choose(device)
    which = devices.indices(device) if target.kind == "cuda" else [0]
    local = [LocalExecutor(target, python=python or sys.executable, limits=limits, index=i) for i in which]
    try:
        for executor in local:
            begun(executor)
        local[0].probe()
    except BaseException:
        for executor in local:
            executor.close()
        raise
    return local[0] if len(local) == 1 else SeveralExecutor(local)
