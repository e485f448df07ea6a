"""Result of a search for several targets: a run per target, and a comparison of the best kernels on all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from forewarp.archive.rows import CandidateRow, RunStatus
from forewarp.archive.store import Archive
from forewarp.core.values import Measurement
from forewarp.export.bake import bake
from forewarp.search.compromise import Everywhere, compare
from forewarp.tools.parts import SCHEMA_VERSION, Interval, KernelId, Part, median_of, shown, speedup_of
from forewarp.tools.run_report import SearchResult, report

MOST = 12
"""Most kernels that are listed, besides the winners."""


class OnTarget(Part):
    """A kernel on one target."""

    device: str
    outcome: str = Field(description="Its verdict; else its failure, what the gate said, or skip.")
    forecast: Interval | None = Field(description="Median with the central 80 % interval; null where there was none.")
    speedup: Interval | None = Field(description="Over the reference on the same device; null where it has none.")
    of_best: float | None = Field(description="Its speed-up as a share of the winner's there.")


class AcrossTargets(Part):
    """A kernel on all targets of a search."""

    kernel: KernelId
    won: list[str] = Field(description="Devices on which it is the fastest.")
    targets: list[OnTarget]
    mean: Interval | None = Field(description="Geometric mean of its speed-ups; null unless measured everywhere.")
    worst: float | None = Field(description="Its smallest speed-up.")
    source: str = Field(description="Its text, with its tunables as the launch plan's defaults.")


class JointResult(Part):
    """Result of a search for several targets."""

    summary: str
    schema_version: int = SCHEMA_VERSION
    status: RunStatus
    reason: str
    group_id: str
    task: str
    source: Literal["measured", "replay"]
    runs: list[SearchResult] = Field(description="One per target.")
    kernels: list[AcrossTargets] = Field(
        description="Winners, and what was measured on all targets: by geometric mean, the best first."
    )
    compromise: AcrossTargets | None = Field(
        description="The highest geometric mean over all targets; null where no kernel was measured on all of them."
    )


def differing(kernels: Sequence[AcrossTargets]) -> list[str]:
    """Return a short line for each kernel with the tunables that are not the same in all of them."""
    common = set.intersection(*(set(k.kernel.tunables.items()) for k in kernels)) if kernels else set[tuple[str, int]]()
    return [shown({n: v for n, v in k.kernel.tunables.items() if (n, v) not in common}) for k in kernels]


def joint_report(archive: Archive, group: str) -> JointResult:
    """Return the result so far of a search for several targets; raises `UsageError` for an unknown one."""
    rows = archive.group(group)
    runs = [report(archive, row.id) for row in rows]
    found = compare(archive, {row.target.name: row.id for row in rows})
    candidates = {row.target.name: {c.candidate.sha256: c for c in archive.candidates(row.id)} for row in rows}
    best = {r.device.name: r.best.speedup.ratio for r in runs if r.best is not None}
    chosen = [e for place, e in enumerate(found) if e.won or place < MOST]
    kernels = [_across(e, {d: known.get(e.candidate.sha256) for d, known in candidates.items()}, best) for e in chosen]
    compromise = next((k for k in kernels if k.mean is not None), None)
    status = _status([r.status for r in runs])
    return JointResult(
        summary=_summary(runs, compromise, status),
        status=status,
        reason="; ".join(f"{r.device.name}: {r.reason}" for r in runs if r.reason),
        group_id=str(rows[0].settings["group"]),
        task=runs[0].task,
        source="replay" if any(r.source == "replay" for r in runs) else "measured",
        runs=runs,
        kernels=kernels,
        compromise=compromise,
    )


def _across(found: Everywhere, rows: dict[str, CandidateRow | None], best: dict[str, float]) -> AcrossTargets:
    mean = found.mean
    return AcrossTargets(
        kernel=KernelId.of(found.candidate),
        won=list(found.won),
        targets=[
            _on_target(device, outcome, rows[device], found.measured.get(device), best.get(device))
            for device, outcome in found.outcomes.items()
        ],
        mean=Interval(ratio=mean.speedup, low=mean.low, high=mean.high) if mean else None,
        worst=mean.worst if mean else None,
        source=bake(found.candidate),
    )


def _on_target(
    device: str, outcome: str, row: CandidateRow | None, measured: Measurement | None, best: float | None
) -> OnTarget:
    speedup = speedup_of(measured) if measured is not None and measured.trusted else None
    return OnTarget(
        device=device,
        outcome=outcome,
        forecast=median_of(row.forecast) if row is not None and row.forecast is not None else None,
        speedup=speedup,
        of_best=speedup.ratio / best if speedup is not None and best else None,
    )


def _status(all_of: list[RunStatus]) -> RunStatus:
    for status in ("running", "interrupted", "failed"):
        if status in all_of:
            return status
    return "finished"


def _summary(runs: list[SearchResult], compromise: AcrossTargets | None, status: RunStatus) -> str:
    so_far = "" if status == "finished" else " so far"
    replay = " (replay of recorded measurements)" if any(r.source == "replay" for r in runs) else ""
    winners = ", ".join(
        f"{r.device.name} {f'{r.best.speedup} by {r.best.kernel.short}' if r.best else 'no correct kernel'}"
        for r in runs
    )
    said = f"{runs[0].task} on {len(runs)} targets{replay}{so_far}: {winners}."
    if compromise is None or compromise.mean is None:
        return f"{said} No kernel was measured on all of them."
    shares = ", ".join(f"{t.of_best:.0%}" for t in compromise.targets if t.of_best is not None)
    one = "One kernel wins everywhere" if len(compromise.won) == len(runs) else "Best compromise"
    return (
        f"{said} {one}: {compromise.kernel.short}, geometric mean {compromise.mean}, {compromise.worst:.3g}× at least;"
        f" {shares} of the winners' speed-ups; {_advice(compromise)}."
    )


def _advice(compromise: AcrossTargets) -> str:
    """Advise whether to use the compromise, naming the targets on which it is slower: its mean hides them."""
    slower = [t.device for t in compromise.targets if t.speedup is not None and t.speedup.high < 1]
    if compromise.mean is None or compromise.mean.low <= 1:
        return "it is not clearly faster than the reference; keep the reference"
    return f"use it, but on {' and '.join(slower)}, where the reference is faster" if slower else "use it"
