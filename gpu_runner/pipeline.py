"""Measure many candidates with the devices busy throughout: compiles run ahead in threads while others are measured."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

from forewarp.core.errors import CandidateError, ForewarpError, UsageError, WorkerError
from forewarp.core.protocols import Executor, ParallelCompiler, Subject
from forewarp.core.values import Build, Candidate, Measurement, Task

AHEAD = 2
"""Candidates compiled or being compiled per thread; more would only hold memory and disk."""


def compile_threads(executor: Executor, here: int) -> int:
    """Return how many threads keep an executor's compilers busy: `here` where it compiles on this machine."""
    return executor.compilers if isinstance(executor, ParallelCompiler) else here


@dataclass(frozen=True, slots=True)
class Job:
    """A candidate to compile and measure for a task, against the reference or another kernel."""

    task: Task
    candidate: Candidate
    against: Subject | None = None


@dataclass(frozen=True, slots=True)
class FinishedJob:
    """A job that is done: a measurement, or the error that is not the candidate's, such as a reference that fails."""

    job: Job
    build: Build | None
    measurement: Measurement | None
    error: ForewarpError | None = None


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
    """Measure candidates of one task, as `measure_jobs` does; yield each as it is done.

    A candidate that does not compile costs no device time. Raises `WorkerError` where a process was lost twice, and
    `DeviceError` or `UsageError`. Closing the iterator drops the compiles that have not begun.
    """
    jobs = (Job(task, c, against) for c in candidates)
    done = measure_jobs(executor, jobs, threads=threads, devices=devices, started=lambda job: started(job.candidate))
    try:
        for outcome in done:
            if outcome.build is None or outcome.measurement is None:
                raise outcome.error or AssertionError("an outcome holds a measurement or an error")
            yield outcome.job.candidate, outcome.build, outcome.measurement
    finally:
        done.close()


def measure_jobs(
    executor: Executor,
    jobs: Iterable[Job],
    *,
    threads: int,
    devices: int = 1,
    describe: bool = False,
    started: Callable[[Job], None] = lambda _: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Generator[FinishedJob]:
    """Compile in `threads` threads, measure on `devices` at a time; yield each job as it is done.

    On a CPU, which compiling would keep busy, a batch is compiled before any of it is measured. With `describe`, each
    task's reference is described ahead: where it fails, all jobs of its task get its error. `started` is called, in the
    caller's thread, right before a candidate is measured. Once `stopped` says so, nothing is begun any more. An error
    of one job stops no other, but `DeviceError`, which is raised.
    """
    overlaps = executor.target.kind != "cpu"
    waiting, drained = iter(jobs), False
    described: dict[str, Future[Any]] = {}
    compiling: dict[Future[Build], Job] = {}
    measuring: dict[Future[Measurement], tuple[Job, Build]] = {}
    compilers = ThreadPoolExecutor(threads, thread_name_prefix="compile")
    measurers = ThreadPoolExecutor(devices, thread_name_prefix="measure")
    try:
        while True:
            room = AHEAD * threads - len(compiling) if overlaps or not (compiling or measuring) else 0
            taken = list(islice(waiting, 0 if stopped() else room))
            drained = drained or stopped() or len(taken) < room
            for job in taken:
                if describe and job.task.sha256 not in described:
                    described[job.task.sha256] = compilers.submit(executor.describe, job.task)
                reference = described.get(job.task.sha256)
                compiling[compilers.submit(_compiled, executor, job, reference)] = job
            if not overlaps:
                wait(compiling)
            for compiled in [f for f in compiling if f.done()][: 0 if stopped() else devices - len(measuring)]:
                job, error = compiling.pop(compiled), compiled.exception()
                if error is not None:
                    yield _failure(job, None, error)
                    continue
                build = compiled.result()
                if build.status == "ok":
                    started(job)
                # For a failed build the executor answers at once. A lost process should not end a long series.
                measure = partial(executor.measure, job.task, job.candidate, build, job.against)
                measuring[measurers.submit(twice, measure)] = job, build
            if not measuring and (stopped() or not compiling):
                if drained:
                    return
                continue
            # With all devices taken, a compile that ends changes nothing.
            ahead: set[Future[Any]] = set() if len(measuring) == devices else set(compiling)
            wait(ahead | set(measuring), return_when=FIRST_COMPLETED)
            for measured in [f for f in measuring if f.done()]:
                (job, build), error = measuring.pop(measured), measured.exception()
                yield FinishedJob(job, build, measured.result()) if error is None else _failure(job, build, error)
    finally:
        compilers.shutdown(cancel_futures=True)
        measurers.shutdown(cancel_futures=True)


def _failure(job: Job, build: Build | None, error: BaseException) -> FinishedJob:
    """Return a job's error as its outcome; raises it where every other job would meet it, too."""
    if not isinstance(error, UsageError | WorkerError):
        raise error
    return FinishedJob(job, build, None, error)


def _compiled(executor: Executor, job: Job, reference: Future[Any] | None) -> Build:
    """Compile a candidate whose task's reference works; raises the reference's error where it does not."""
    if reference is not None:
        # It was submitted to the same threads before, so that it runs or is done.
        reference.result()
    try:
        return executor.compile(job.task, job.candidate)
    except CandidateError as e:
        return Build("compile_error", 0.0, str(e))


def twice(measure: Callable[[], Measurement]) -> Measurement:
    """Measure, and once again if the process was lost, whose time the second result tells; raises `WorkerError`."""
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
