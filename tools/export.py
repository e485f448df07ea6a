"""A winner as a drop-in module: the kernel behind a shape guard, the reference everywhere else, and the evidence."""

from __future__ import annotations

import hashlib
from collections.abc import Container
from typing import Any

from pydantic import Field

import forewarp
from forewarp.archive.rows import MeasurementRow, RunRow
from forewarp.archive.store import Archive
from forewarp.core import serde
from forewarp.core.errors import CandidateError
from forewarp.core.values import DEVICE_ONLY
from forewarp.export import module_text
from forewarp.export.module_text import ExportedShape, Winning
from forewarp.search.holdout import Holdout
from forewarp.search.summary import RunWinner, best_of
from forewarp.tools.measured import workload_result
from forewarp.tools.parts import Device, Interval, Part, speedup_of

MODULE = "best_module.py"
"""Name of the exported module's file."""


class ShapeEvidence(Part):
    """Result on one shape: a workload of the task, or a near shape that nobody tuned for."""

    name: str
    near: bool = Field(description="Whether nobody tuned for it.")
    status: str
    verdict: str | None
    speedup: Interval | None
    constants: dict[str, Any]
    guarded: bool = Field(default=False, description="Whether the module runs the kernel for it.")
    log: str = ""


class DropInEvidence(Part):
    """Facts about a run's winner, as `evidence.json` keeps them beside the module."""

    schema_version: int = 1
    forewarp: str = Field(description="Version that measured it.")
    run_id: str
    task: str
    task_sha256: str
    kernel_sha256: str
    language: str
    tunables: dict[str, int]
    device: Device
    driver: str
    environment: dict[str, str]
    date: str = Field(description="When the measurement ended.")
    speedup: Interval
    first_speedup: float = Field(description="The number that won, before the confirmation.")
    confirmed: bool
    verdict: str
    checks: list[str]
    flags: list[str]
    generalises: str | None = Field(description="yes, no, partly or unknown; null where no near shape was examined.")
    said: str
    shapes: list[ShapeEvidence]
    module: str | None = Field(description="The module's file; null where there is none.")
    module_sha256: str | None
    why_no_module: str = ""


class DropIn(Part):
    """A winner's module with its evidence; without text where none can be made, which the evidence explains."""

    text: str | None
    evidence: DropInEvidence


def drop_in(archive: Archive, run_id: str) -> DropIn | None:
    """Return the winner of a run as a module; None where there is no winner. Raises `UsageError` for an unknown run."""
    run = archive.run(run_id)
    best, _ = best_of(archive, run.id)
    row = archive.measurement(best.measurement_id) if best else None
    if best is None or row is None or row.measurement is None:
        return None
    found = archive.holdouts(run.id).get(best.candidate.sha256)
    holdout = serde.from_data(Holdout, found) if found else None
    signatures = archive.signatures(run.task.sha256, run.target.name)
    judged = [
        ExportedShape(s.workload, w.constants, s)
        for w, s in zip(run.task.workloads[run.target.kind], signatures, strict=False)
        if w.name in {t.workload for t in row.measurement.workloads}
    ]
    judged += [ExportedShape(s.name, s.constants, s.signature) for s in holdout.shapes if s.right] if holdout else []
    winning = Winning(run.task, run.target, best.candidate, tuple(judged))
    why = ""
    if not judged and best.candidate.language in DEVICE_ONLY:
        why = "the archive does not say which tensors the kernel was measured on"
    guarded = {j.name for j in judged}
    evidence = _evidence(run, best, row, holdout, guarded)
    text = None
    try:
        text = None if why else module_text.of(winning, _in_words(evidence))
    except CandidateError as e:
        why = e.message
    digest = hashlib.sha256(text.encode()).hexdigest() if text else None
    update = {"module": MODULE if text else None, "module_sha256": digest, "why_no_module": why}
    return DropIn(text=text, evidence=evidence.model_copy(update=update))


def _evidence(
    run: RunRow, best: RunWinner, row: MeasurementRow, holdout: Holdout | None, guarded: Container[str]
) -> DropInEvidence:
    m = row.measurement
    assert m is not None
    constants = {w.name: w.constants for w in run.task.workloads[run.target.kind]}
    shapes = [
        ShapeEvidence.of(workload_result(w), near=False, status=m.status, constants=constants.get(w.workload, {}))
        for w in m.workloads
    ]
    shapes += [ShapeEvidence.of(s, near=True, speedup=speedup_of(s)) for s in (holdout.shapes if holdout else ())]
    return DropInEvidence.of(
        m,
        forewarp=run.version or forewarp.__version__,
        run_id=run.id,
        task=run.task.name,
        task_sha256=run.task.sha256,
        kernel_sha256=best.candidate.sha256,
        language=best.candidate.language,
        tunables=best.candidate.tunables,
        device=Device.of(run.target),
        driver=m.environment.get("driver", ""),
        date=row.finished,
        speedup=speedup_of(best),
        first_speedup=best.first_speedup,
        confirmed=best.confirmed,
        verdict=best.verdict,
        generalises=holdout.generalises if holdout else None,
        said=holdout.said if holdout else "no near shape was examined",
        shapes=[s.model_copy(update={"guarded": s.name in guarded}) for s in shapes],
        module=None,
        module_sha256=None,
    )


def _in_words(e: DropInEvidence) -> list[str]:
    """Return the lines that the module opens with."""
    confirmed = "confirmed by a second measurement" if e.confirmed else "not confirmed by a second measurement"
    lines = [
        f"{e.task}: a kernel found by forewarp, {e.speedup} (95 % interval) over the reference.",
        "",
        f"verdict:   {e.verdict}, {confirmed}",
        f"device:    {e.device.name}{f', driver {e.driver}' if e.driver else ''}",
        f"measured:  {e.date}",
        f"forewarp:  {e.forewarp}, run {e.run_id}",
        f"kernel:    {e.language}, sha256 {e.kernel_sha256}",
    ]
    lines += [f"tunables:  {', '.join(f'{k} = {v}' for k, v in e.tunables.items())}"] if e.tunables else []
    lines += [f"checks:    {', '.join(e.checks)}"] if e.checks else []
    lines += [f"flags:     {', '.join(e.flags)}"] if e.flags else []
    lines += [f"near:      {e.said}", "", "shapes:"]
    for s in e.shapes:
        pace = f"{s.speedup}, {s.verdict}" if s.speedup else s.status
        lines.append(f"  {s.name}{' (near)' if s.near else ''}: {pace}{'' if s.guarded else '; left to the reference'}")
    return lines
