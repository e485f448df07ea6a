"""Validate a task: answers that compute nothing, or too coarsely, must not pass for right ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from forewarp.core.errors import UsageError
from forewarp.core.validation import NullResult, Validator, WorkloadReport
from forewarp.tools import wording
from forewarp.tools.parts import SCHEMA_VERSION, Device, OnStage, Part, unwatched
from forewarp.tools.requests import ValidateRequest
from forewarp.tools.session import Executors, closing_executors, load_task

Soundness = Literal["sound", "random", "degenerate"]


class WorkloadSoundness(Part):
    """One shape of the task."""

    name: str
    sound: bool
    oracle: str = Field(description="How expected values are made: fp64, or fp32 highest where fp64 does not run.")
    nulls: list[NullResult]
    problems: list[str] = Field(description="What else makes the task degenerate.")
    notes: list[str] = Field(description="What is worth knowing, but no failure.")
    random: list[str] = Field(
        default_factory=list[str], description="Operations with which the reference draws random numbers."
    )


class ValidateResult(Part):
    """Verdict on whether measurements on this task mean anything."""

    summary: str
    schema_version: int = SCHEMA_VERSION
    verdict: Soundness
    task: str
    device: Device
    workloads: list[WorkloadSoundness]


def validate_task(
    request: ValidateRequest, *, stage: OnStage = unwatched, executors: Executors | None = None
) -> ValidateResult:
    """Check that null candidates are rejected on each shape of the task. Needs no candidate, and records nothing.

    Raises `TaskError` with the reference's own error.
    """
    with closing_executors(executors) as kept:
        task = load_task(request.task, request.place, **request.options)
        stage("starting the device")
        executor = kept.get(request.place, task)
        if not isinstance(executor, Validator):
            raise UsageError(
                "a recorded pool cannot validate a task: the reference has to run",
                hint="pass --device cpu or --device cuda",
            )
        reports = executor.validate(task, lambda name: stage(f"validating {name}"))
    workloads = [WorkloadSoundness.of(r, name=r.workload) for r in reports]
    return ValidateResult(
        summary=_summary(task.name, executor.target.name, workloads),
        verdict=_verdict(reports),
        task=task.name,
        device=Device.of(executor.target),
        workloads=workloads,
    )


def _verdict(reports: Sequence[WorkloadReport]) -> Soundness:
    if any(r.degenerate for r in reports):
        return "degenerate"
    return "sound" if all(r.sound for r in reports) else "random"


def _summary(task: str, device: str, workloads: list[WorkloadSoundness]) -> str:
    if all(w.sound for w in workloads):
        tried = sum(len(w.nulls) for w in workloads)
        shapes = wording.counted(len(workloads), "shape")
        return f"Sound: all {tried} null candidates of {task} are turned down, on {shapes} on {device}."
    found: list[str] = []
    for workload in workloads:
        passed = [str(n) for n in workload.nulls if n.passed]
        if passed or workload.problems:
            found.append(f"{workload.name}: {', '.join([*passed, *workload.problems])}")
    if not found:
        drawn = ", ".join(dict.fromkeys(name for w in workloads for name in w.random))
        return (
            f"Random: the reference of {task} draws random numbers ({drawn}). Both arms get the same seed before each "
            "call, so only kernels that draw the same numbers in the same order can be right."
        )
    return f"Degenerate: no speed-up on {task} means anything. What should be turned down is not. {'; '.join(found)}."
