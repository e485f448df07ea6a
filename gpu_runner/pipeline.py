"""Measure many candidates with the devices busy throughout: compiles run ahead in threads while others are measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from itertools import islice
from typing import Any

from forewarp.core.errors import CandidateError, WorkerError
from forewarp.core.protocols import Executor, Spread, Subject
from forewarp.core.values import Build, Candidate, Measurement, Task

AHEAD = 2
"""Candidates compiled or being compiled per thread; more would only hold memory and disk."""


def compile_threads(executor: Executor, here: int) -> int:
    """Return how many threads keep an executor's compilers busy: `here` where it compiles on this machine."""
    return executor.compilers if isinstance(executor, Spread) else here


def measure_all(
    executor: Executor,
    task: Task,
    candidates: Iterable[Candidate],
    *,
    threads: int,
    devices: int = 1,
    against: Subject | None = None,
    started: Callable[[Candidate], None] = lambda _: None,
) -> Iterator[tuple[Candidate, Build, Measurement]]:
    """Compile in `threads` threads, measure on `devices` at a time; yield each candidate as it is done.

    Whatever is compiled first is measured first. On a CPU, which compiling would keep busy, a batch is compiled before
    any of it is measured. A candidate that does not compile, or is malformed, comes as a
    measurement with the status `compile_error` and costs no device time. `started` is called, in the caller's thread,
    right before a candidate is measured. A measurement whose process was lost is made once more; raises `WorkerError`
    where that fails too, and `DeviceError` or `UsageError` for what no candidate can help. Closing the iterator drops
    the compiles that have not begun.
    """
    overlaps = executor.target.kind != "cpu"
    waiting = iter(candidates)
    compiling: dict[Future[Build], Candidate] = {}
    measuring: dict[Future[Measurement], tuple[Candidate, Build]] = {}
    compilers = ThreadPoolExecutor(threads, thread_name_prefix="compile")
    measurers = ThreadPoolExecutor(devices, thread_name_prefix="measure")
    try:
        while True:
            room = AHEAD * threads - len(compiling) if overlaps or not (compiling or measuring) else 0
            for candidate in islice(waiting, room):
                compiling[compilers.submit(_compiled, executor, task, candidate)] = candidate
            if not overlaps:
                wait(compiling)
            for compiled in [f for f in compiling if f.done()][: devices - len(measuring)]:
                candidate, build = compiling.pop(compiled), compiled.result()
                if build.status == "ok":
                    started(candidate)
                measuring[measurers.submit(_measured, executor, task, candidate, build, against)] = candidate, build
            if not compiling and not measuring:
                return
            # With all devices taken, a compile that ends changes nothing.
            ahead: set[Future[Any]] = set() if len(measuring) == devices else set(compiling)
            wait(ahead | set(measuring), return_when=FIRST_COMPLETED)
            for measured in [f for f in measuring if f.done()]:
                yield *measuring.pop(measured), measured.result()
    finally:
        compilers.shutdown(cancel_futures=True)
        measurers.shutdown(cancel_futures=True)


def _compiled(executor: Executor, task: Task, candidate: Candidate) -> Build:
    try:
        return executor.compile(task, candidate)
    except CandidateError as e:
        return Build("compile_error", 0.0, str(e))


def _measured(
    executor: Executor, task: Task, candidate: Candidate, build: Build, against: Subject | None
) -> Measurement:
    """Measure; for a failed build the executor answers at once. A lost process should not end a long series."""
    return twice(lambda: executor.measure(task, candidate, build, against))


def twice(measure: Callable[[], Measurement]) -> Measurement:
    """Measure, and once again if the measuring process was lost; what the first attempt took is told by the second.

    Raises `WorkerError` of the second attempt.
    """
    try:
        return measure()
    except WorkerError as e:
        lost_s = e.lost_s
    try:
        m = measure()
    except WorkerError as e:
        e.lost_s += lost_s
        raise
    return replace(m, phases={**m.phases, "lost": m.phases.get("lost", 0.0) + lost_s}) if lost_s else m
