"""A winner as a drop-in module: the kernel behind a shape guard, the reference everywhere else, and the evidence."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

import forewarp
from forewarp.archive.rows import RecordedRow
from forewarp.archive.store import Archive
from forewarp.core import serde
from forewarp.core.errors import CandidateError, TaskError, UsageError
from forewarp.core.files import write_whole, writing
from forewarp.core.untrusted_text import model_json
from forewarp.core.values import DEVICE_ONLY, UNTRUSTED, AskedGradients, Candidate, Measurement, Signature, Target, Task
from forewarp.export import module_text, package
from forewarp.export.module_text import ExportedShape, Winning
from forewarp.search.holdout import Holdout
from forewarp.search.summary import best_of
from forewarp.tools import session
from forewarp.tools.measured import workload_result
from forewarp.tools.parts import SCHEMA_VERSION, Device, Interval, Part, Place, speedup_of
from forewarp.tools.requests import ExportFormat, ExportKernelRequest

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
    run_id: str = Field(description="The run that found it; empty for a kernel that was measured by itself.")
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


class ExportResult(Part):
    """Files that a kernel was written to, with what its numbers rest on."""

    summary: str
    schema_version: int = SCHEMA_VERSION
    format: ExportFormat
    name: str
    folder: str
    files: list[str]
    evidence: DropInEvidence


def drop_in(archive: Archive, run_id: str) -> DropIn | None:
    """Return the winner of a run as a module; None where there is no winner. Raises `UsageError` for an unknown run."""
    found = _of_run(archive, run_id)
    if found is None:
        return None
    winning, evidence = found
    text, why = None, ""
    try:
        _check_shapes(winning)
        text = module_text.of(winning, _in_words(evidence))
    except CandidateError as e:
        why = e.message
    digest = hashlib.sha256(text.encode()).hexdigest() if text else None
    update = {"module": MODULE if text else None, "module_sha256": digest, "why_no_module": why}
    return DropIn(text=text, evidence=evidence.model_copy(update=update))


def package_name(task: str) -> str:
    """Return a task's name as that of a package: "softmax" for "23_Softmax", a problem of KernelBench."""
    name = re.sub(r"^\d+_+", "", re.sub(r"\W+", "_", task).strip("_").lower())
    return f"op_{name}" if name[:1].isdigit() else name


def export_kernel(request: ExportKernelRequest) -> ExportResult:
    """Write a run's winner, or a kernel that was measured, as a module, a package or a file for vLLM.

    Raises `UsageError` where there is no such run or measurement, `CandidateError` where the form does not fit.
    """
    place = Place(archive=request.archive)
    with session.existing_archive(place, "" if request.task else request.subject) as archive:
        winning, evidence = _winner(archive, request, request.subject, place)
        backward, speedup_of_gradients = None, None
        if request.backward is not None:
            gradients = _winner(archive, request, request.backward, place, gradients="only")
            _check_shapes(gradients[0])
            facts, speedup_of_gradients = model_json(gradients[1], indent=2) + "\n", gradients[1].speedup
            backward = package.BackwardKernel(gradients[0], _in_words(gradients[1]), facts)
    if backward is not None and request.format != "package":
        raise UsageError("only a package takes a kernel of gradients", hint="--format package")
    _check_shapes(winning)
    name = request.name or package_name(winning.task.name)
    words, facts = _in_words(evidence), model_json(evidence, indent=2) + "\n"
    match request.format:
        case "package":
            texts, default = package.package(winning, name, words, facts, backward), name
        case "vllm-op":
            texts, default = {f"{name}.py": package.vllm_op(winning, name, words)}, "."
        case "file":
            texts, default = {f"{request.name or MODULE.removesuffix('.py')}.py": module_text.of(winning, words)}, "."
    folder = Path(request.out or default).expanduser().absolute()
    if request.format != "package" and folder.suffix == ".py" and not folder.is_dir():
        (text,) = texts.values()
        folder, texts = folder.parent, {folder.name: text}
    with writing(folder, "pass another --out"):
        for path, text in texts.items():
            write_whole(folder / path, text)
    also = f", gradients {speedup_of_gradients}" if speedup_of_gradients else ""
    return ExportResult(
        summary=f"{evidence.task}: {evidence.speedup}{also} (95 % interval) on {evidence.device.name}, as "
        f"{request.format}.",
        format=request.format,
        name=name,
        folder=str(folder),
        files=[str(folder / path) for path in texts],
        evidence=evidence,
    )


def _winner(
    archive: Archive, request: ExportKernelRequest, subject: str, place: Place, gradients: AskedGradients | None = None
) -> tuple[Winning, DropInEvidence]:
    """Return a run's winner, or a kernel that was measured on the request's task, with its evidence."""
    if request.task is not None:
        return _of_kernel(archive, request, subject, place, gradients)
    run_id = _run_of(archive, subject)
    found = _of_run(archive, run_id)
    if found is None:
        raise UsageError(f"nothing worked in run {run_id}, so there is no winner")
    return found


def _run_of(archive: Archive, subject: str) -> str:
    """Return the run that is meant by what names one in the archive, or by a folder that holds a run's files."""
    file = Path(subject).expanduser() / "evidence.json"
    if not file.is_file():
        return archive.run(subject).id
    try:
        return archive.run(str(json.loads(file.read_text(encoding="utf-8"))["run_id"])).id
    except (OSError, ValueError, KeyError, TypeError):
        raise UsageError(f"{file} names no run", hint="pass the run's id; `forewarp runs` lists them") from None


def _of_run(archive: Archive, run_id: str) -> tuple[Winning, DropInEvidence] | None:
    run = archive.run(run_id)
    best, _ = best_of(archive, run.id)
    row = archive.measurement(best.measurement_id) if best else None
    if best is None or row is None or row.measurement is None:
        return None
    found = archive.holdouts(run.id).get(best.candidate.sha256)
    holdout = serde.from_data(Holdout, found) if found else None
    signatures = archive.signatures(run.task.sha256, run.target.name)
    winning = _winning(run.task, run.target, best.candidate, signatures, row.measurement, holdout)
    evidence = _evidence(
        winning,
        row.measurement,
        holdout,
        forewarp=run.version or forewarp.__version__,
        run_id=run.id,
        date=row.finished,
        speedup=speedup_of(best),
        first_speedup=best.first_speedup,
        confirmed=best.confirmed,
        verdict=best.verdict,
    )
    return winning, evidence


def _of_kernel(
    archive: Archive, request: ExportKernelRequest, file: str, place: Place, gradients: AskedGradients | None
) -> tuple[Winning, DropInEvidence]:
    """Return a kernel of the user's own with its latest trusted measurement against the reference."""
    candidate = session.read_candidate(file, {} if gradients else request.tunables)
    rows = [
        r
        for r in _rows_of(archive, candidate, str(request.task), place, gradients)
        if r.measurement.status == "ok" and speedup_of(r.measurement) and r.measurement.verdict not in UNTRUSTED
    ]
    if not rows:
        asked = f" --gradients {gradients}" if gradients else ""
        raise UsageError(
            f"the archive has no trusted measurement of {file} on {request.task}{asked}",
            hint=f"`forewarp measure {request.task} {file}{asked}` makes one",
        )
    row, measured = rows[-1], rows[-1].measurement
    signatures = row.signatures
    if not signatures:  # runs record them, a measurement by itself does not
        with session.open_session(Place(device=row.target.kind, archive=request.archive), row.task) as opened:
            signatures = opened.executor.describe(row.task)
    winning = _winning(row.task, row.target, candidate, signatures, measured, None)
    assert measured.speedup is not None
    evidence = _evidence(
        winning,
        measured,
        None,
        forewarp=row.version,
        run_id=row.run or "",
        date=row.finished,
        speedup=speedup_of(measured),
        first_speedup=measured.speedup,
        confirmed=False,
        verdict=measured.verdict,
    )
    return winning, evidence


def _rows_of(
    archive: Archive, candidate: Candidate, task: str, place: Place, gradients: AskedGradients | None
) -> list[RecordedRow]:
    """Return a kernel's measurements on a task by path or name, on other sizes of it where there are none on its own.

    The name of a task that only a recorded pool brought will do.
    """

    def of_kernel(rows: list[RecordedRow]) -> list[RecordedRow]:
        return [r for r in rows if r.candidate.sha256 == candidate.sha256 and r.task.gradients == gradients]

    try:
        loaded = session.load_task(task, place, gradients=gradients)
    except TaskError:
        if rows := [r for r in archive.recorded() if r.task.name == task]:
            return of_kernel(rows)
        raise
    own = of_kernel(archive.recorded(task_sha256=loaded.sha256))
    return own or [r for r in of_kernel(archive.recorded()) if r.task.reference == loaded.reference]


def _winning(
    task: Task,
    target: Target,
    candidate: Candidate,
    signatures: Sequence[Signature],
    measured: Measurement,
    holdout: Holdout | None,
) -> Winning:
    right = {t.workload for t in measured.workloads}
    workloads = zip(task.workloads[target.kind], signatures, strict=False)
    judged = [ExportedShape(w.name, w.constants, s) for w, s in workloads if w.name in right]
    judged += [ExportedShape(s.name, s.constants, s.signature) for s in holdout.shapes if s.right] if holdout else []
    return Winning(task, target, candidate, tuple(judged))


def _check_shapes(winning: Winning) -> None:
    if not winning.judged and winning.candidate.language in DEVICE_ONLY:
        raise CandidateError("the archive does not say which tensors the kernel was measured on")


def _evidence(winning: Winning, m: Measurement, holdout: Holdout | None, **fields: Any) -> DropInEvidence:
    task, target, candidate = winning.task, winning.target, winning.candidate
    constants = {w.name: w.constants for w in task.workloads[target.kind]}
    shapes = [
        ShapeEvidence.of(workload_result(w), near=False, status=m.status, constants=constants.get(w.workload, {}))
        for w in m.workloads
    ]
    shapes += [ShapeEvidence.of(s, near=True, speedup=speedup_of(s)) for s in (holdout.shapes if holdout else ())]
    guarded = {j.name for j in winning.judged}
    return DropInEvidence.of(
        m,
        task=task.name,
        task_sha256=task.sha256,
        kernel_sha256=candidate.sha256,
        language=candidate.language,
        tunables=candidate.tunables,
        device=Device.of(target),
        driver=m.environment.get("driver", ""),
        generalises=holdout.generalises if holdout else None,
        said=holdout.said if holdout else "no near shape was examined",
        shapes=[s.model_copy(update={"guarded": s.name in guarded}) for s in shapes],
        module=None,
        module_sha256=None,
        **fields,
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
        f"forewarp:  {e.forewarp}{f', run {e.run_id}' if e.run_id else ''}",
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
