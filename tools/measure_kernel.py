"""Measure kernels: whether each is correct, and how fast it is against the reference or against another kernel."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field

from forewarp.core.errors import CandidateError, DeviceError, UsageError, WorkerError
from forewarp.core.protocols import Subject
from forewarp.core.untrusted_text import clip
from forewarp.core.values import Build, Candidate, Measurement, Target, Task
from forewarp.tools import session as sessions
from forewarp.tools.measured import MeasureResult, result_of
from forewarp.tools.parts import SCHEMA_VERSION, Kernel, OnStage, Part, Place, unwatched
from forewarp.tools.plan_proposal import planned_candidate
from forewarp.tools.requests import MeasureManyRequest, MeasureRequest
from forewarp.tools.session import Executors, Session

MeasureStage = Literal["forecasting", "starting the device", "compiling", "measuring"]
MAX_THREADS = 8


class KernelResult(Part):
    """One of several kernels: its result, or why there is none."""

    path: str = Field(description="File of the kernel; empty where it was given as text.")
    result: MeasureResult | None
    problem: str = Field(default="", description="Why it could not be read, or does not run on this device.")


class MeasureManyResult(Part):
    """Results of measuring several kernels, in the order given."""

    summary: str
    schema_version: int = SCHEMA_VERSION
    kernels: list[KernelResult]


def measure_kernel(
    request: MeasureRequest,
    *,
    stage: Callable[[MeasureStage], None] = unwatched,
    executors: Executors | None = None,
    whole: Callable[[str], None] = unwatched,
) -> MeasureResult:
    """Compile, check and time the kernel; the archive gets an entry before the measurement, and the result after.

    `whole` gets the log, of which the result holds the head and the tail.
    """
    candidate = planned_candidate(request.kernel, request.task, request.place, executors)
    other = _other(request.against, request.task, request.place, executors)
    stage("starting the device")
    with sessions.open_session(request.place, request.task, executors, **request.options) as opened:
        task, executor, archive = opened.task, opened.executor, opened.archive
        sessions.check_language(candidate, executor)
        stage("compiling")
        against = _anchor(opened, other)
        build = executor.compile(task, candidate)
        if build.status != "ok":
            # Not a measurement: the device was not needed, and the gate would have stopped it.
            whole(build.log)
            return _result(opened, candidate, build, None, other)
        stage("measuring")
        number = archive.begin_measurement(task, executor.target, candidate, against=other)
        try:
            measurement = executor.measure(task, candidate, build, against)
        except WorkerError as e:
            archive.add_lost(None, e.lost_s, f"measurement {number}")
            raise
        if needs := _needs_a_gpu(executor.target, measurement):
            what, _, hint = needs.partition("; ")
            raise DeviceError(f"the kernel cannot run on {executor.target.name}: {what}", hint=hint)
        archive.finish_measurement(number, measurement, build)
        whole(measurement.log or build.log)
        return _result(opened, candidate, build, measurement, other, number)


def measure_kernels(
    request: MeasureManyRequest, *, stage: OnStage = unwatched, executors: Executors | None = None
) -> MeasureManyResult:
    """Measure several kernels, compiling ahead while the device is busy; returns a result for each, in order.

    A kernel that fails, or cannot even be read, stops no other; each finished measurement is recorded at once. Equal
    kernels are measured once. Raises `UsageError` where the kernel to measure against cannot be used.
    """
    other = _other(request.against, request.task, request.place, executors)
    stage("starting the device")
    with sessions.open_session(request.place, request.task, executors, **request.options) as opened:
        chosen = [_choose(k, opened, request.place, executors) for k in request.kernels]
        wanted = {c.sha256: c for c in chosen if isinstance(c, Candidate)}
        results: dict[str, MeasureResult | str] = {}
        try:
            for sha256, result in _measured(opened, list(wanted.values()), other):
                results[sha256] = result
                stage(f"measured {len(results)} of {len(wanted)}")
        except WorkerError as e:
            opened.archive.add_lost(None, e.lost_s, "measurement of several")
            raise
    found = [c if isinstance(c, str) else results[c.sha256] for c in chosen]
    attempts = [
        KernelResult(path=kernel.path or "", result=None, problem=each)
        if isinstance(each, str)
        else KernelResult(path=kernel.path or "", result=each)
        for kernel, each in zip(request.kernels, found, strict=True)
    ]
    return MeasureManyResult(summary=_summary(attempts, opened.task.name, other), kernels=attempts)


def _summary(attempts: list[KernelResult], task: str, other: Candidate | None) -> str:
    over = f"kernel {other.short} on {task}" if other else f"the reference of {task}"
    results = [(a.path, a.result) for a in attempts if a.result is not None]
    faster = [(path, r.speedup) for path, r in results if r.verdict == "faster" and r.speedup is not None]
    wrong = sum(r.status != "ok" for _, r in results) + len(attempts) - len(results)
    said = f"{len(faster)} of {len(attempts)} kernels {'is' if len(faster) == 1 else 'are'} faster than {over}"
    said += f", {wrong} failed" if wrong else ""
    if not faster:
        return f"{said}."
    path, speedup = max(faster, key=lambda f: f[1].ratio)
    return f"{said}. The fastest is {Path(path).name or 'given as text'}: {speedup} (95 % interval)."


def _measured(
    opened: Session, candidates: list[Candidate], other: Candidate | None
) -> Iterator[tuple[str, MeasureResult | str]]:
    """Measure and record each; yield identities with results, or why there are none, in the order of measuring."""
    from forewarp.gpu_runner.pipeline import compile_threads, measure_all

    task, executor, archive = opened.task, opened.executor, opened.archive
    numbers: dict[str, int] = {}

    def announce(candidate: Candidate) -> None:
        numbers[candidate.sha256] = archive.begin_measurement(task, executor.target, candidate, against=other)

    threads = compile_threads(executor, max(1, min(MAX_THREADS, (os.cpu_count() or 1) - 1)))
    against = _anchor(opened, other) if candidates else None
    done = measure_all(
        executor, task, candidates, threads=threads, devices=executor.devices, against=against, started=announce
    )
    for candidate, build, measurement in done:
        number = numbers.get(candidate.sha256)
        if needs := _needs_a_gpu(executor.target, measurement):
            yield candidate.sha256, needs
            continue
        if number is not None:
            archive.finish_measurement(number, measurement, build)
        yield candidate.sha256, _result(opened, candidate, build, measurement if number else None, other, number)


def _needs_a_gpu(target: Target, measurement: Measurement) -> str:
    """Return why a module that launches Triton kernels cannot run on the CPU device; "" for others."""
    from forewarp.gpu_runner.executors.verdicts import NEEDS_A_GPU

    return NEEDS_A_GPU if target.kind == "cpu" and NEEDS_A_GPU in measurement.log.partition("\n")[0] else ""


def _choose(kernel: Kernel, opened: Session, place: Place, executors: Executors | None) -> Candidate | str:
    """Read a kernel; returns an error message if it is bad, or in a language that the device does not run."""
    try:
        candidate = planned_candidate(kernel, opened.task, place, executors)
        sessions.check_language(candidate, opened.executor)
    except UsageError as e:
        return str(e)
    return candidate


def _other(kernel: Kernel | None, task: str | Task, place: Place, executors: Executors | None) -> Candidate | None:
    """Return the kernel to measure against; raises `UsageError` on replay, or if it cannot be read."""
    if kernel is None:
        return None
    if place.device == "replay":
        raise UsageError(
            "a recorded pool holds measurements against the reference only",
            hint="leave --against out, or measure on a real device",
        )
    return planned_candidate(kernel, task, place, executors)


def _anchor(opened: Session, other: Candidate | None) -> Subject | None:
    """Compile the kernel to measure against; raises `CandidateError` if that fails."""
    if other is None:
        return None
    sessions.check_language(other, opened.executor)
    build = opened.executor.compile(opened.task, other)
    if build.status != "ok":
        raise CandidateError(
            f"the kernel to measure against does not compile: {clip(build.log, 600)}",
            hint="measure it alone first, and pass a correct one",
        )
    return Subject(other, build)


def _result(
    opened: Session,
    candidate: Candidate,
    build: Build,
    measurement: Measurement | None,
    other: Candidate | None,
    number: int | None = None,
) -> MeasureResult:
    """Return the result of a measurement; of a kernel that was not measured, that of its build."""
    target = opened.executor.target
    if measurement is None:
        phases = {"compile": build.seconds, "total": build.seconds}
        anchor = other.sha256 if other else "reference"
        measurement = Measurement(
            build.status, "failed", target.name, "T0", anchor=anchor, phases=phases, log=build.log
        )
    return result_of(opened.task.name, target, candidate, build, measurement, number)
