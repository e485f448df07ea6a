"""Calibration of forecasts: recorded forecasts against later measurements, as given and after correction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from forewarp.archive.forecasts import beside, read_forecasts
from forewarp.archive.pools.parquet import files_of, read_pool
from forewarp.archive.rows import CandidateRow, RunRow
from forewarp.archive.store import Archive
from forewarp.core.errors import UsageError
from forewarp.core.protocols import Forecaster
from forewarp.search.summary import exact_interval
from forewarp.surrogate import calibration
from forewarp.surrogate.calibration import Calibration, Outcome
from forewarp.surrogate.drift import Drift
from forewarp.surrogate.evaluation import backtest, metrics
from forewarp.tools import session
from forewarp.tools.parts import SCHEMA_VERSION, Part, Place
from forewarp.tools.requests import CalibrationRequest
from forewarp.tools.wording import counted

HISTORY = 8
"""Trials of each task of a pool that a forecaster is shown before it is asked about the others."""

ENOUGH = 5_000
"""Number of outcomes after which no older runs are read for a reliability diagram."""

_FOLDS = 5
_ALL_RUNS = 1_000_000


class ReliabilityPoint(Part):
    """Forecast probabilities in one tenth: their number, their mean, how often it came true with its 95 % interval."""

    count: int
    forecast: float
    observed: float
    low: float
    high: float


class CalibrationScores(Part):
    """Scores of forecasts against measurements, over valid candidates unless noted; null if there are none."""

    ece: float | None = Field(description="Gap between confidence and accuracy of the likeliest bin, in ten buckets.")
    brier: float | None = Field(description="Half squared distance of the eight bins to the outcome.")
    crps: float | None
    nll: float | None
    coverage: float | None = Field(description="Share of measured speed-ups in the 80 % intervals.")
    brier_valid: float = Field(description="Squared distance of p_valid to the outcome, all candidates.")
    confidence: list[ReliabilityPoint] = Field(description="Confidence in the likeliest bin against its accuracy.")
    faster: list[ReliabilityPoint] = Field(description="Probability of being correct and faster against its frequency.")


class Parameters(Part):
    """The correction that all outcomes speak for; all zero is none."""

    spread: float
    tilt: float
    tails: float
    valid_shift: float
    valid_slope: float


class DriftState(Part):
    """The alarm, per run: forecasts as they were given against what was measured, in order."""

    runs: int
    alarmed: list[str] = Field(description="Runs (tasks, for a pool) in which the alarm went off.")
    evidence: float = Field(description="The largest bet against calibration, from 1; the alarm goes off at `limit`.")
    limit: float


class TierCalibration(Part):
    """One forecaster. `after` is null with too few outcomes; each outcome in it was corrected by others only."""

    forecaster: str
    outcomes: int
    valid: int
    tasks: int
    needed: int = Field(description="Valid outcomes that a correction takes.")
    before: CalibrationScores
    after: CalibrationScores | None
    corrected_by: Literal["other tasks", "other outcomes", ""]
    correction: Parameters
    drift: DriftState


class CalibrationResult(Part):
    """Calibration of each forecaster."""

    summary: str
    schema_version: int = SCHEMA_VERSION
    source: Literal["archive", "pool"]
    where: str
    tiers: list[TierCalibration]


@dataclass(frozen=True, slots=True)
class OnRecord:
    """Reliability on one device of one forecaster's probabilities that a kernel is correct and faster."""

    forecaster: str
    outcomes: int
    points: Sequence[ReliabilityPoint]


@dataclass(frozen=True, slots=True)
class ScoredOutcome:
    """An outcome with the forecaster and the run (or, of a pool, the task) that it belongs to."""

    tier: str
    run: str
    key: str
    outcome: Outcome


def calibrate(request: CalibrationRequest) -> CalibrationResult:
    """Return how calibrated the recorded forecasts are; raises `UsageError` for an unknown run or forecaster."""
    if request.pool is not None:
        if request.run is not None:
            raise UsageError("a pool has no runs", hint="pass --task to look at a part of it")
        seen, where = of_pool(Path(request.pool).expanduser(), request.task, request.forecaster), request.pool
    else:
        seen, where = _of_archive(request)
    if request.forecaster is not None:
        seen = [s for s in seen if request.forecaster in (s.tier, s.tier.partition(":")[0])]
    tiers = [_tier(name, [s for s in seen if s.tier == name]) for name in _names(seen)]
    return CalibrationResult(
        summary=_summary(tiers, where, request),
        source="archive" if request.pool is None else "pool",
        where=where,
        tiers=tiers,
    )


def of_pool(
    path: Path, task: str | None = None, forecaster: str | None = None, history: int = HISTORY, asked: int | None = None
) -> list[ScoredOutcome]:
    """Return the forecasts recorded beside a pool, else those that the forecaster makes now, with their outcomes.

    Of each task it is shown `history` trials and asked about at most `asked` others.
    """
    plan = backtest.plan(read_pool(path), history)
    groups = [g for g in plan.groups if task in (None, g.task.name)]
    records = [r for file in files_of(path) if beside(file).exists() for r in read_forecasts(beside(file))]
    cases = [c for g in backtest.plan(read_pool(path)).groups for c in g.cases if task in (None, g.task.name)]
    answers = backtest.recorded(records, cases) if records else []
    if not answers or (forecaster is not None and not any(a.name.startswith(forecaster) for a in answers)):
        chosen = _forecaster(forecaster or "learned")
        groups = [replace(g, subjects=g.subjects[:asked], cases=g.cases[:asked]) for g in groups]
        answers = [backtest.run(chosen, groups)]
    return [
        ScoredOutcome(
            answer.name,
            row.case.task,
            row.case.kernel,
            Outcome(row.forecast, row.case.speedup is not None, row.case.speedup, row.case.task, row.case.incumbent),
        )
        for answer in answers
        for row in answer.rows
    ]


def _forecaster(name: str) -> Forecaster:
    found = session.make_forecaster(name, None, calibrated=False) if name == "learned" else None
    if found is None:
        raise UsageError(
            f"no forecasts of {name} are recorded beside the pool, and only learned can be asked here",
            hint="use --forecaster learned; `forewarp evaluate` asks the others, and scores recorded forecasts",
        )
    return found


def _of_archive(request: CalibrationRequest) -> tuple[list[ScoredOutcome], str]:
    found: list[ScoredOutcome] = []
    with session.existing_archive(Place(archive=request.archive)) as archive:
        runs = [archive.run(request.run)] if request.run is not None else archive.runs(limit=_ALL_RUNS)[::-1]
        for run in runs:
            if request.task in (None, run.task.name):
                found += _of_run(archive, run)
        return found, str(archive.path)


def faster_on_record(place: Place, device: str, forecaster: str = "") -> OnRecord | None:
    """Return the reliability of the latest forecasts for a device, by its name; None without any, or without archive.

    Those of the named forecaster are taken, else of the one with the most outcomes.
    """
    seen: list[ScoredOutcome] = []
    try:
        with session.existing_archive(place) as archive:
            for run in archive.runs(limit=_ALL_RUNS):
                if run.target.name == device and len(seen) < ENOUGH:
                    seen += _of_run(archive, run)
    except UsageError:
        return None
    counts = Counter(s.tier for s in seen)
    if not counts:
        return None
    name = forecaster if forecaster in counts else counts.most_common(1)[0][0]
    found = [s.outcome for s in seen if s.tier == name]
    return OnRecord(name, len(found), scores(found).faster)


def scores_of_run(run: str, task: str, rows: Sequence[CandidateRow]) -> dict[str, CalibrationScores]:
    """Score each forecaster's forecasts in one run against the measurements; returns scores by forecaster, maybe none.

    A cascade comes first, then the tiers that it was combined from.
    """
    seen = _of_rows(run, task, rows)
    return {name: scores([s.outcome for s in seen if s.tier == name]) for name in _names(seen)}


def _of_run(archive: Archive, run: RunRow) -> list[ScoredOutcome]:
    return _of_rows(run.id, run.task.name, archive.candidates(run.id))


def _of_rows(run: str, task: str, rows: Sequence[CandidateRow]) -> list[ScoredOutcome]:
    ordered = sorted(rows, key=lambda r: r.measurement_id or 0)
    return [s for r in ordered for s in _seen(r, run, task)]


def _seen(row: CandidateRow, run: str, task: str) -> list[ScoredOutcome]:
    """Return the outcome of a candidate's forecast and of each tier that it was combined from."""
    if row.forecast is None or (m := row.measurement) is None:
        return []
    incumbent = row.decision.numbers.get("incumbent", 1.0) if row.decision else 1.0
    return [
        ScoredOutcome(f.forecaster, run, row.candidate.sha256, Outcome.of(f, m, task, incumbent))
        for f in (row.forecast, *row.forecast.tiers)
    ]


def _names(seen: Sequence[ScoredOutcome]) -> list[str]:
    return list(dict.fromkeys(s.tier for s in seen))


def _tier(name: str, seen: Sequence[ScoredOutcome]) -> TierCalibration:
    outcomes = [s.outcome for s in seen]
    tasks = {o.task for o in outcomes}
    timed = sum(o.valid for o in outcomes)
    enough = timed >= calibration.MIN_OUTCOMES
    corrected = corrected_by_others(outcomes) if enough else None
    whole = calibration.fit(outcomes, Calibration(name))
    return TierCalibration(
        forecaster=name,
        outcomes=len(outcomes),
        valid=timed,
        tasks=len(tasks),
        needed=calibration.MIN_OUTCOMES,
        before=scores(outcomes),
        after=None if corrected is None else scores(corrected),
        corrected_by="" if corrected is None else "other tasks" if len(tasks) >= _FOLDS else "other outcomes",
        correction=Parameters.of(whole),
        drift=_drift(seen),
    )


def corrected_by_others(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Correct each outcome's forecast by cross-validation: the fit has not seen the outcome.

    With at least `_FOLDS` tasks, the fit has not seen the outcome's task either.
    """
    tasks = {task: place for place, task in enumerate(dict.fromkeys(o.task for o in outcomes))}
    places = [tasks[o.task] for o in outcomes] if len(tasks) >= _FOLDS else range(len(outcomes))
    folds = [place % _FOLDS for place in places]
    fits = [
        calibration.fit([o for o, f in zip(outcomes, folds, strict=True) if f != fold], calibration.IDENTITY)
        for fold in range(_FOLDS)
    ]
    return [replace(o, forecast=fits[f].apply(o.forecast)) for o, f in zip(outcomes, folds, strict=True)]


def scores(outcomes: Sequence[Outcome]) -> CalibrationScores:
    """Score forecasts against the measurements."""
    timed = [(o.forecast, o.speedup) for o in outcomes if o.valid and o.speedup]
    p, speedups = [f.probabilities for f, _ in timed], [s for _, s in timed]
    y = metrics.bins_of(speedups)
    lows, highs = [f.interval[0] for f, _ in timed], [f.interval[1] for f, _ in timed]
    p_valid, valid = (np.array(v, float) for v in ([o.forecast.p_valid for o in outcomes], [o.valid for o in outcomes]))
    figures = {"ece": metrics.ece, "brier": metrics.brier, "crps": metrics.crps, "nll": metrics.nll}
    right = [int(np.argmax(each)) == k for each, k in zip(p, y, strict=True)]
    return CalibrationScores(
        **{name: figure(p, y) if timed else None for name, figure in figures.items()},
        coverage=metrics.coverage(lows, highs, speedups) if timed else None,
        brier_valid=float(((p_valid - valid) ** 2).mean()),
        confidence=reliability([f.confidence for f, _ in timed], right),
        faster=reliability(
            [o.forecast.p_faster for o in outcomes], [o.valid and (o.speedup or 0) > 1 for o in outcomes]
        ),
    )


def reliability(said: Sequence[float], came_true: Sequence[bool]) -> list[ReliabilityPoint]:
    """Return the observed frequency of an event in each tenth of its forecast probability, empty tenths left out."""
    points: list[ReliabilityPoint] = []
    for bucket in metrics.reliability(said, came_true):
        low, high = exact_interval(round(bucket.observed * bucket.count), bucket.count)
        points.append(ReliabilityPoint.of(bucket, low=low, high=high))
    return points


def _drift(seen: Sequence[ScoredOutcome]) -> DriftState:
    states: dict[str, Drift] = {}
    for s in seen:
        state, o = states.setdefault(s.run, Drift()), s.outcome
        state.observe(s.key, o.forecast, valid=o.valid, speedup=o.speedup)
    return DriftState(
        runs=len(states),
        alarmed=[run for run, state in states.items() if state.alarmed],
        evidence=max((state.evidence for state in states.values()), default=1.0),
        limit=1 / Drift().alpha,
    )


def _summary(tiers: Sequence[TierCalibration], where: str, request: CalibrationRequest) -> str:
    chosen = {"forecaster": request.forecaster, "task": request.task, "run": request.run}
    only = "".join(f" of {kind} {name}" for kind, name in chosen.items() if name)
    if not tiers and only:
        return f"No forecast{only} in {where} has been followed by a measurement; leave that out to see all others."
    if not tiers:
        return f"No forecast in {where} has been followed by a measurement yet; `forewarp optimize softmax` makes some."
    return " ".join(_of_tier(t) for t in tiers)


def _of_tier(tier: TierCalibration) -> str:
    if tier.after is None:
        return (
            f"{tier.forecaster}: {tier.valid} valid outcomes; a correction takes {tier.needed}, "
            f"{tier.needed - tier.valid} more."
        )
    before, after = tier.before, tier.after
    return (
        f"{tier.forecaster}: {tier.outcomes} outcomes of {counted(tier.tasks, 'task')}; "
        f"ECE {before.ece:.3f}, {after.ece:.3f} corrected; "
        f"{before.coverage:.0%} in the 80 % intervals, {after.coverage:.0%} corrected."
    )
