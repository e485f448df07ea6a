"""Result of a run, read from the archive alone: running, finished and killed runs work alike."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal

from pydantic import Field

from forewarp.archive.rows import CandidateRow, RunRow, RunStatus
from forewarp.archive.store import Archive
from forewarp.core.errors import UsageError
from forewarp.core.values import UNTRUSTED, Measurement, Status, Verdict
from forewarp.export.bake import bake
from forewarp.search import lease
from forewarp.search.summary import RunSummary, best_of, summarise
from forewarp.tools.measured import DeviceState, WorkloadResult, device_state, workload_result
from forewarp.tools.near_shapes import NearShapes
from forewarp.tools.parts import (
    SCHEMA_VERSION,
    Amounts,
    Device,
    Interval,
    KernelId,
    Part,
    Prediction,
    Price,
    speedup_of,
    trim,
)

UNOWNED = timedelta(minutes=2)
"""Age from which a run counts as lost if no process has claimed it."""


class BestKernel(Part):
    """The run's winner. `speedup` comes from a second, independent measurement where `confirmed` is true."""

    kernel: KernelId
    speedup: Interval
    verdict: Verdict
    confirmed: bool
    workloads: list[WorkloadResult]
    checks: list[str] = Field(description="What its outputs had to pass.")
    flags: list[str] = Field(description="What speaks against its time.")
    device_state: DeviceState | None = Field(description="Null where the device has no such readings.")
    source: str = Field(description="The kernel's text, with its tunables as the launch plan's defaults.")


class Winner(Part):
    """A run's winner in a list of runs, without its text."""

    kernel: KernelId
    speedup: Interval
    verdict: Verdict
    confirmed: bool
    shapes: dict[str, Verdict] = Field(description="Verdict on each shape.")
    noise_percent: float | None = Field(description="Largest noise floor of a shape, in percent.")
    device_state: DeviceState | None = Field(description="Null where the device has no such readings.")


class Counts(Part):
    """Numbers of candidates by how far they came."""

    proposed: int
    considered: int = Field(description="Passed the gate and were forecast.")
    measured: int
    rejected: dict[str, int] = Field(description="By the gate: malformed, duplicate, same_code, compile_error.")
    failures: dict[str, int] = Field(description="Measured, but failed: by status.")


class TierLine(Part):
    """Candidates that one tier of forecasting answered for, and the cost."""

    tier: str = Field(description="Name of the forecaster.")
    candidates: int = Field(description="How many it answered for; one that was asked about again counts once.")
    unread: int = Field(default=0, description="How many of these answers could not be read; they had no say.")
    cost: Price


class BudgetUse(Part):
    """Amounts spent, and the caps; null is not capped."""

    spent: Amounts
    limit: Amounts


class MeasuredFigures(Part):
    """Result of measuring a candidate."""

    status: Status
    verdict: Verdict
    speedup: Interval | None
    source: Literal["measured", "replay"]
    id: int = Field(description="Its number in the archive; numbers rise in the order of measuring.")
    log: str = ""


class CandidateLine(Part):
    """One candidate of the run: forecast against measurement."""

    kernel: KernelId
    round: int
    proposer: str
    parent: str
    note: str
    outcome: str = Field(description="What the gate said: passed, malformed, duplicate, same_code, compile_error.")
    action: Literal["measure", "skip", "reject"] | None
    reason: str
    forecast: Prediction | None
    measured: MeasuredFigures | None


class Audit(Part):
    """Share of the forecaster's discards that would have beaten the best: from random audits, with 95 % interval."""

    discarded: int
    audited: int
    false: int
    share: Interval


class SearchResult(Part):
    """Result of a run."""

    summary: str
    schema_version: int = SCHEMA_VERSION
    status: RunStatus
    reason: str
    run_id: str
    task: str
    device: Device
    source: Literal["measured", "replay"]
    forecaster: str = Field(description="Empty where everything was measured.")
    proposer: str
    best: BestKernel | None
    counts: Counts
    tiers: list[TierLine] = Field(
        default_factory=list[TierLine], description="Who forecast, the cheapest first; empty without a forecaster."
    )
    budget: BudgetUse
    audit: Audit | None
    holdout: NearShapes | None = Field(
        default=None, description="The winner on shapes that nobody tuned for; null where it was not tried on any."
    )
    alarms: int = Field(
        default=0, description="How often outcomes did not fit the forecasts, so that all was measured for a while."
    )
    candidates: list[CandidateLine]


def report(archive: Archive, run_id: str) -> SearchResult:
    """Return the result of a run so far; raises `UsageError` for an unknown run."""
    row = archive.run(run_id)
    found = summarise(archive, row.id)
    lines = [_line(r) for r in archive.candidates(row.id)]
    source = "replay" if any(c.measured and c.measured.source == "replay" for c in lines) else "measured"
    best = _best(archive, found)
    return SearchResult(
        summary=" ".join(part for part in (_summary(row, found, best, source), found.note) if part),
        status=found.status,
        reason=found.reason,
        run_id=row.id,
        task=found.task,
        device=Device.of(row.target),
        source=source,
        forecaster=found.forecaster,
        proposer=found.proposer,
        best=best,
        counts=Counts(
            proposed=found.proposed,
            considered=found.considered,
            measured=found.measured,
            rejected=dict(found.rejected),
            failures=dict(found.failures),
        ),
        tiers=[
            TierLine(tier=t.tier, candidates=t.candidates, unread=t.unread, cost=Price.of(t.cost)) for t in found.tiers
        ],
        budget=BudgetUse(spent=Amounts.of(found.spend), limit=Amounts.of(found.budget)),
        audit=_audit(found),
        holdout=NearShapes.of(found.holdout) if found.holdout else None,
        alarms=found.alarms,
        candidates=lines,
    )


def lost(row: RunRow) -> bool:
    """Return whether a run counts as running although its process is gone, as far as this host can tell."""
    if row.status != "running":
        return False
    if not row.owner:
        # A process claims its run right after registering it; without a claim, it was killed in between.
        return datetime.now(UTC) - datetime.fromisoformat(row.created) > UNOWNED
    try:
        lease.check(row)
    except UsageError:
        return False
    return True


def standing(row: RunRow) -> tuple[RunStatus, str]:
    """Return a run's status and reason for people: one whose process is gone is not running, but interrupted."""
    if lost(row):
        return "interrupted", f"its process is gone; `forewarp resume {row.id}` goes on with it"
    return row.status, row.reason


def winner(archive: Archive, run_id: str) -> Winner | None:
    """Return the run's winner so far; raises `UsageError` for an unknown run."""
    found, _ = best_of(archive, archive.run(run_id).id)
    if found is None:
        return None
    m = archive.measurement(found.measurement_id).measurement
    shapes = [workload_result(w) for w in m.workloads] if m else []
    return Winner(
        kernel=KernelId.of(found.candidate),
        speedup=Interval(ratio=found.speedup, low=found.low, high=found.high),
        verdict=found.verdict,
        confirmed=found.confirmed,
        shapes={w.name: w.verdict for w in shapes},
        noise_percent=max((w.noise_percent for w in shapes if w.noise_percent is not None), default=None),
        device_state=device_state(m) if m else None,
    )


def best_so_far(candidates: Sequence[CandidateLine]) -> list[Interval | None]:
    """Return the best speed-up after each measurement, in order; None while nothing worked.

    An ambiguous measurement leads only until there is an unambiguous one.
    """
    best: Interval | None = None
    standing = (False, 0.0)
    curve: list[Interval | None] = []
    for _, measured in in_order(candidates):
        found = usable(measured)
        if found is not None and (reached := (measured.verdict != "ambiguous", found.ratio)) > standing:
            best, standing = found, reached
        curve.append(best)
    return curve


def in_order(candidates: Sequence[CandidateLine]) -> list[tuple[CandidateLine, MeasuredFigures]]:
    """Return the measured candidates in the order of measuring, which is not the order of proposing."""
    pairs = [(c, c.measured) for c in candidates if c.measured is not None]
    return sorted(pairs, key=lambda pair: pair[1].id)


def usable(measured: MeasuredFigures | None) -> Interval | None:
    """Return the speed-up of a candidate that is correct and has a trusted time; None for others."""
    if measured is None or measured.status != "ok" or measured.verdict in UNTRUSTED:
        return None
    return measured.speedup


def _best(archive: Archive, found: RunSummary) -> BestKernel | None:
    best = found.best
    if best is None:
        return None
    m = archive.measurement(best.measurement_id).measurement
    return BestKernel(
        kernel=KernelId.of(best.candidate),
        speedup=Interval(ratio=best.speedup, low=best.low, high=best.high),
        verdict=best.verdict,
        confirmed=best.confirmed,
        workloads=[workload_result(w) for w in m.workloads] if m else [],
        checks=list(m.checks) if m else [],
        flags=list(m.flags) if m else [],
        device_state=device_state(m) if m else None,
        source=bake(best.candidate),
    )


def _measured(m: Measurement, number: int) -> MeasuredFigures:
    found = speedup_of(m)
    return MeasuredFigures(
        status=m.status, verdict=m.verdict, speedup=found, source=m.source, id=number, log=trim(m.log, 400)
    )


def _line(row: CandidateRow) -> CandidateLine:
    decision = row.decision
    return CandidateLine(
        kernel=KernelId.of(row.candidate),
        round=row.round,
        proposer=row.proposer,
        parent=row.parent,
        note=row.note,
        outcome=row.outcome,
        action=decision.action if decision else None,
        reason=trim(row.reason or (decision.reason if decision else ""), 400),
        forecast=Prediction.of(row.forecast) if row.forecast else None,
        measured=_measured(row.measurement, row.measurement_id or 0) if row.measurement else None,
    )


def _audit(found: RunSummary) -> Audit | None:
    f = found.false_discards
    if f is None:
        return None
    return Audit(
        discarded=f.discarded,
        audited=f.audited,
        false=f.false,
        share=Interval(ratio=f.share, low=f.low, high=f.high),
    )


def _summary(row: RunRow, found: RunSummary, best: BestKernel | None, source: str) -> str:
    where = f"{found.task} on {row.target.name}{' (replay of recorded measurements)' if source == 'replay' else ''}"
    effort = f"{found.considered} candidate{'s' * (found.considered != 1)} considered, {found.measured} measured"
    state = {"running": " so far", "interrupted": " before it was interrupted", "failed": " before it failed"}
    when = state.get(found.status, "")
    if best is None:
        failed = ", ".join(f"{n} {status}" for status, n in found.failures.items())
        return f"No correct candidate for {where}{when}: {effort}{f' ({failed})' if failed else ''}."
    advice = "it is not clearly faster than the reference; keep the reference"
    if best.verdict == "ambiguous":
        advice = "but equal kernels came out unequal, or seconds and clock cycles disagree; keep the reference"
    elif best.speedup.low > 1:
        advice = "use it"
    elif best.speedup.high < 1:
        advice = "it is slower than the reference; keep the reference"
    if advice == "use it" and found.holdout is not None:
        said = found.holdout.said
        advice = said if found.holdout.generalises == "no" else f"use it; {said}"
    checked = "confirmed by a second measurement" if best.confirmed else "not confirmed by a second measurement"
    if found.status == "running":
        advice = "the run's process is gone, resume it" if lost(row) else "the run goes on"
    return (
        f"Best kernel of {where}{when}: {best.speedup} (95 % interval) over the reference, {checked}; {advice}."
        f" {effort}."
    )
