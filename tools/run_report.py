"""Result of a run, read from the archive alone: running, finished and killed runs work alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pydantic import Field

from forewarp.archive.rows import CandidateRow, DecisionRow, EventRow, MeasurementRow, RunRow, RunStatus
from forewarp.archive.store import Archive
from forewarp.core.errors import UsageError
from forewarp.core.untrusted_text import clip, first_error
from forewarp.core.values import UNTRUSTED, Action, Signature, Status, Verdict
from forewarp.export.bake import bake
from forewarp.search import lease
from forewarp.search.account import AccountLine
from forewarp.search.summary import RunSummary, best_of, summarise
from forewarp.tools import wording
from forewarp.tools.measured import DeviceState, WorkloadResult, device_state, loud_words, noise_of, workload_result
from forewarp.tools.parts import (
    SCHEMA_VERSION,
    Amounts,
    Device,
    Interval,
    KernelId,
    Part,
    Prediction,
    Price,
    Source,
    prediction_of,
    speedup_of,
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
    measured_again: int = Field(
        default=0, description="Further measurements of these, such as the winner's second one; the budget counts them."
    )
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
    source: Source
    id: int = Field(description="Its number in the archive; numbers rise in the order of measuring.")
    log: str = ""


class AccountLines(Part):
    """Costs of the run in seconds and dollars, beside those of measuring every candidate that it considered."""

    said: str = Field(description="The account in a sentence.")
    hour: float | None = Field(
        description="Dollars an hour of the device, from the price table; null where it is not listed."
    )
    asked: AccountLine = Field(description="Answers of forecasters; dollars: tokens, and the device while it waits.")
    written: AccountLine = Field(description="Programs by language models; dollars likewise.")
    built: AccountLine = Field(
        description="Kernels compiled, those from a cache left out; seconds add up over threads, dollars do not."
    )
    measured: AccountLine = Field(description="Measurements with their device seconds.")
    spared: AccountLine | None = Field(
        description="Estimate: what measuring the other candidates would have taken, each as the run's measurements of "
        "its language took on average; null without a forecaster or a measurement."
    )
    saved: AccountLine | None = Field(description="Estimate: spared less asked; negative where asking cost more.")


class CandidateLine(Part):
    """One candidate of the run: forecast against measurement."""

    kernel: KernelId
    round: int
    proposer: str
    parent: str
    note: str
    outcome: str = Field(description="What the gate said: passed, malformed, duplicate, same_code, compile_error.")
    action: Action | None
    reason: str
    forecast: Prediction | None
    measured: MeasuredFigures | None


class Audit(Part):
    """Share of the forecaster's discards that would have beaten the best: from random audits, with 95 % interval."""

    discarded: int
    audited: int
    false: int
    share: Interval


class NearShape(Part):
    """The winner on one shape that nobody tuned for; `status` may also be not_applicable or not_measured."""

    name: str
    origin: str = Field(description="The workload that it was made from.")
    status: str
    verdict: Verdict | None
    speedup: Interval | None
    log: str


class NearShapes(Part):
    """Results of the winner on shapes that nobody tuned for, and whether it holds there."""

    generalises: str = Field(description="yes, no, partly or unknown.")
    said: str
    shapes: list[NearShape]


class SearchResult(Part):
    """Result of a run."""

    summary: str
    schema_version: int = SCHEMA_VERSION
    status: RunStatus
    reason: str
    run_id: str
    task: str
    device: Device
    source: Source
    forecaster: str = Field(description="Empty where everything was measured.")
    proposer: str
    best: BestKernel | None
    counts: Counts
    tiers: list[TierLine] = Field(
        default_factory=list[TierLine], description="Who forecast, the cheapest first; empty without a forecaster."
    )
    budget: BudgetUse
    account: AccountLines | None = Field(default=None, description="Null in results of older versions.")
    audit: Audit | None
    holdout: NearShapes | None = Field(
        default=None, description="The winner on shapes that nobody tuned for; null where it was not tried on any."
    )
    alarms: int = Field(
        default=0, description="How often outcomes did not fit the forecasts, so that all was measured for a while."
    )
    candidates: list[CandidateLine]


@dataclass(frozen=True, slots=True)
class RunRecord:
    """All that the archive holds of a run, for its charts and tables."""

    run: RunRow
    candidates: Sequence[CandidateRow]
    decisions: Sequence[DecisionRow]
    measurements: Sequence[MeasurementRow]
    events: Sequence[EventRow]
    signatures: Sequence[Signature]

    @staticmethod
    def read(archive: Archive, run_id: str) -> RunRecord:
        """Read a run, also while it is worked on; raises `UsageError` for an unknown one."""
        run = archive.run(run_id)
        return RunRecord(
            run,
            archive.candidates(run.id),
            archive.decisions(run.id),
            [m for m in archive.measurements(run=run.id) if m.purpose != "direct"],
            archive.events(run.id),
            archive.signatures(run.task.sha256, run.target.name),
        )


def report(archive: Archive, run_id: str) -> SearchResult:
    """Return the result of a run so far; raises `UsageError` for an unknown run."""
    row = archive.run(run_id)
    found = summarise(archive, row.id, over=lost(row))
    rows = archive.candidates(row.id)
    lines = [_line(r) for r in rows]
    source = "replay" if any(c.measured and c.measured.source == "replay" for c in lines) else "measured"
    best, audits, holdout = _best(archive, found), found.false_discards, found.holdout
    shapes = [NearShape.of(s, speedup=speedup_of(s)) for s in holdout.shapes] if holdout else []
    share = Interval(ratio=audits.share, low=audits.low, high=audits.high) if audits else None
    return SearchResult.of(
        found,
        summary=" ".join(
            part for part in (_summary(row, found, best, source), "" if best else _why_none(rows), found.note) if part
        ),
        run_id=row.id,
        device=Device.of(row.target),
        source=source,
        best=best,
        counts=Counts.of(found, measured_again=max(0, archive.spend(row.id, over=True).measurements - found.measured)),
        tiers=[TierLine.of(t, cost=Price.of(t.cost)) for t in found.tiers],
        budget=BudgetUse(spent=Amounts.of(found.spend), limit=Amounts.of(found.budget)),
        account=AccountLines.of(found.account, said=wording.account(found.account)),
        audit=Audit.of(audits, share=share) if audits else None,
        holdout=NearShapes.of(holdout, shapes=shapes) if holdout else None,
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
    return Winner.of(
        found,
        kernel=KernelId.of(found.candidate),
        speedup=speedup_of(found),
        shapes={w.name: w.verdict for w in shapes},
        noise_percent=noise_of(shapes),
        device_state=device_state(m) if m else None,
    )


class BestSoFar:
    """The best speed-up of the measurements seen: an ambiguous one leads only until there is an unambiguous one."""

    def __init__(self) -> None:
        self.speedup: Interval | None = None
        self._rank = (False, 0.0)

    def see(self, speedup: Interval | None, verdict: str) -> bool:
        """Take the next measurement, whose speed-up is None unless it worked; returns whether it leads now."""
        if speedup is None or verdict in UNTRUSTED:
            return False
        rank = (verdict != "ambiguous", speedup.ratio)
        leads = rank > self._rank
        if leads:
            self.speedup, self._rank = speedup, rank
        return leads


def best_so_far(candidates: Sequence[CandidateLine]) -> list[Interval | None]:
    """Return the best speed-up after each measurement, in order; None while nothing worked."""
    best = BestSoFar()
    curve: list[Interval | None] = []
    for _, measured in in_order(candidates):
        best.see(usable(measured), measured.verdict)
        curve.append(best.speedup)
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


def oracles(document: SearchResult) -> str:
    """Return who answered for how many candidates, from the cheapest to the device, and what the paid ones cost."""
    asked = [
        f"{t.candidates} forecast by {t.tier}{f' ({t.unread} unreadable)' if t.unread else ''}{wording.price(t.cost)}"
        for t in document.tiers
    ]
    if document.forecaster.startswith("cascade") and len(document.tiers) == 1:
        asked.append("no language model (each forecast's rationale says why)")
    return f"Candidates: {', '.join([*asked, f'{document.counts.measured} measured'])}"


def _best(archive: Archive, found: RunSummary) -> BestKernel | None:
    best = found.best
    if best is None:
        return None
    m = archive.measurement(best.measurement_id).measurement
    return BestKernel.of(
        best,
        kernel=KernelId.of(best.candidate),
        speedup=speedup_of(best),
        workloads=[workload_result(w) for w in m.workloads] if m else [],
        checks=m.checks if m else (),
        flags=m.flags if m else (),
        device_state=device_state(m) if m else None,
        source=bake(best.candidate),
    )


def _line(row: CandidateRow) -> CandidateLine:
    decision, m = row.decision, row.measurement
    return CandidateLine.of(
        row,
        kernel=KernelId.of(row.candidate),
        action=decision.action if decision else None,
        reason=clip(row.reason or (decision.reason if decision else ""), 400),
        forecast=prediction_of(row.forecast),
        measured=m and MeasuredFigures.of(m, speedup=speedup_of(m), id=row.measurement_id or 0, log=clip(m.log, 400)),
    )


def _why_none(rows: Sequence[CandidateRow]) -> str:
    """Say what is wrong with the first candidate that failed: often it is the seed, and so all others fail alike."""
    for row in rows:
        m = row.measurement
        if m is not None and not m.trusted:
            status, log = m.verdict if m.status == "ok" else m.status, m.log
        elif row.outcome in ("malformed", "compile_error"):
            status, log = row.outcome, row.reason
        else:
            continue
        return f"The first that failed, {row.candidate.short}, is {status.replace('_', ' ')}: {first_error(log)}"
    return ""


def _summary(row: RunRow, found: RunSummary, best: BestKernel | None, source: str) -> str:
    where = f"{found.task} on {row.target.name}{' (replay of recorded measurements)' if source == 'replay' else ''}"
    effort = f"{wording.counted(found.considered, 'candidate')} considered, {found.measured} measured"
    state = {"running": " so far", "interrupted": " before it was interrupted", "failed": " before it failed"}
    when = state.get(found.status, "")
    if best is None:
        failed = ", ".join(f"{n} {status}" for status, n in found.failures.items())
        return f"No correct and trusted candidate for {where}{when}: {effort}{f' ({failed})' if failed else ''}."
    advice = "it is not clearly faster than the reference; keep the reference"
    if best.verdict == "ambiguous":
        advice = "but equal kernels came out unequal, or seconds and clock cycles disagree; keep the reference"
    elif loud := loud_words(noise_of(best.workloads)):
        advice = f"but {loud}"
    elif best.verdict == "faster":
        advice = "use it"
    elif best.verdict == "slower":
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
