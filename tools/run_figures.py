"""Data of a run's charts and tables, read from the archive alone: running and killed runs work, too."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from forewarp.archive.rows import MeasurementRow
from forewarp.archive.store import Archive
from forewarp.core.values import Status, Verdict
from forewarp.tools.calibration import CalibrationScores, scores_of_run
from forewarp.tools.parts import Interval, KernelId, Part, speedup_of
from forewarp.tools.run_decisions import (
    DecisionLine,
    FailureGroup,
    ProposerLine,
    RoundLine,
    UnansweredLine,
    decision_lines,
    failures,
    proposer_lines,
    round_lines,
    unanswered,
)
from forewarp.tools.run_lineage import Change, Lineage, by_kernel, changes, lineage
from forewarp.tools.run_report import SearchResult, best_so_far, in_order, lost
from forewarp.tools.run_roofline import Roofline, roofline


class Step(Part):
    """One measurement of the run; `number` counts them from 1 in the order made, the confirmation among them.

    `seconds`, `dollars` and `tokens` are what the run had spent when it was done, all together.
    """

    number: int
    kernel: KernelId
    purpose: Literal["candidate", "confirm"]
    status: Status
    verdict: Verdict
    speedup: Interval | None
    best: Interval | None = Field(description="Best so far of the candidates, after this measurement.")
    leads: bool = Field(description="Became the best so far.")
    audit: bool
    device_s: float = Field(description="Seconds for which the device was held up to here.")
    dollars: float
    tokens: int
    wall_s: float


class Reliability(Part):
    """Calibration of one forecaster's forecasts in this run."""

    forecaster: str
    scores: CalibrationScores
    outcomes: int = Field(description="Forecasts that were followed by a measurement.")


class RunFigures(Part):
    """Data of a run's charts and tables."""

    title: str
    created: str
    finished: str
    version: str
    lost: bool = Field(description="Counts as running, but its process is gone.")
    begun: int = Field(description="Measurements that were announced and have no result.")
    steps: list[Step]
    reliability: list[Reliability] = Field(description="By forecaster; a cascade first, then its tiers.")
    roofline: Roofline | None
    lineage: Lineage
    changes: list[Change]
    decisions: list[DecisionLine]
    rounds: list[RoundLine]
    unanswered: list[UnansweredLine]
    proposers: list[ProposerLine]
    failures: list[FailureGroup]


def figures(archive: Archive, result: SearchResult) -> RunFigures:
    """Return the figures of the run that `result` reports; raises `UsageError` for an unknown run."""
    run = archive.run(result.run_id)
    rows, decisions, events = archive.candidates(run.id), archive.decisions(run.id), archive.events(run.id)
    measured = [m for m in archive.measurements(run=run.id) if m.purpose != "direct"]
    winner = result.best.kernel.sha256 if result.best else ""
    steps = _steps(measured, result, {e.data["measurement"]: e.data["spend"] for e in events if e.type == "Measured"})
    known = by_kernel(rows)
    leads = [s.kernel.sha256 for s in steps if s.leads and s.kernel.sha256 in known]
    return RunFigures(
        title=run.task.title,
        created=run.created,
        finished=run.finished,
        version=run.version,
        lost=lost(run),
        begun=sum(m.state == "started" for m in measured),
        steps=steps,
        reliability=[
            Reliability(forecaster=name, scores=scores, outcomes=sum(p.count for p in scores.faster))
            for name, scores in scores_of_run(archive, run).items()
        ],
        roofline=roofline(run.target, archive.signatures(run.task.sha256, run.target.name), rows, winner),
        lineage=lineage(rows, leads, winner),
        changes=changes(rows, run.task, leads, winner),
        decisions=decision_lines(rows, decisions),
        rounds=round_lines(rows, decisions, [known[k] for k in leads]),
        unanswered=unanswered(events),
        proposers=proposer_lines(rows, [known[k] for k in leads]),
        failures=failures(rows),
    )


def _steps(measured: list[MeasurementRow], result: SearchResult, spends: dict[int, dict[str, Any]]) -> list[Step]:
    """Return every finished measurement; `spends` holds the amounts spent by then, by number in the archive."""
    ids = [m.id for _, m in in_order(result.candidates)]
    curve = dict(zip(ids, best_so_far(result.candidates), strict=True))
    audits = {c.measured.id for c in result.candidates if c.measured and c.reason.startswith("audit")}
    best: Interval | None = None
    device_s, steps = 0.0, list[Step]()
    for row in (m for m in measured if m.state == "done"):
        m, spent = row.measurement, spends.get(row.id, {})
        if m is None:
            continue
        before, best = best, curve.get(row.id, best)
        device_s += m.device_s
        steps.append(
            Step(
                number=len(steps) + 1,
                kernel=KernelId.of(row.candidate),
                purpose="confirm" if row.purpose == "confirm" else "candidate",
                status=m.status,
                verdict=m.verdict,
                speedup=speedup_of(m),
                best=best,
                leads=best is not before,
                audit=row.id in audits,
                device_s=device_s,
                dollars=spent.get("dollars", 0.0),
                tokens=spent.get("tokens", 0),
                wall_s=spent.get("wall_s", 0.0),
            )
        )
    return steps
