"""Scores of recorded forecasts against what was measured after them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from forewarp.archive.rows import CandidateRow
from forewarp.core.errors import UsageError
from forewarp.search.summary import exact_interval
from forewarp.surrogate.calibration import Outcome
from forewarp.surrogate.evaluation import metrics
from forewarp.tools import session
from forewarp.tools.parts import Part, Place

ENOUGH = 5_000
"""Number of outcomes after which no older runs are read for a reliability diagram."""

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


@dataclass(frozen=True, slots=True)
class OnRecord:
    """Reliability on one device of one forecaster's probabilities that a kernel is correct and faster."""

    forecaster: str
    outcomes: int
    points: Sequence[ReliabilityPoint]


def faster_on_record(place: Place, device: str, forecaster: str = "") -> OnRecord | None:
    """Return the reliability of the latest forecasts for a device, by its name; None without any, or without archive.

    Those of the named forecaster are taken, else of the one with the most outcomes.
    """
    seen: list[tuple[str, Outcome]] = []
    try:
        with session.existing_archive(place) as archive:
            for run in archive.runs(limit=_ALL_RUNS):
                if run.target.name == device and len(seen) < ENOUGH:
                    seen += _outcomes(run.task.name, archive.candidates(run.id))
    except UsageError:
        return None
    counts = Counter(tier for tier, _ in seen)
    if not counts:
        return None
    name = forecaster if forecaster in counts else counts.most_common(1)[0][0]
    found = [outcome for tier, outcome in seen if tier == name]
    return OnRecord(name, len(found), scores(found).faster)


def scores_of_run(task: str, rows: Sequence[CandidateRow]) -> dict[str, CalibrationScores]:
    """Score each forecaster's forecasts in one run against the measurements; returns scores by forecaster, maybe none.

    A cascade comes first, then the tiers that it was combined from.
    """
    seen = _outcomes(task, rows)
    names = dict.fromkeys(tier for tier, _ in seen)
    return {name: scores([outcome for tier, outcome in seen if tier == name]) for name in names}


def _outcomes(task: str, rows: Sequence[CandidateRow]) -> list[tuple[str, Outcome]]:
    """Return the outcome of each measured candidate's forecast, and of each tier that it was combined from."""
    found: list[tuple[str, Outcome]] = []
    for row in sorted(rows, key=lambda r: r.measurement_id or 0):
        if row.forecast is None or (m := row.measurement) is None:
            continue
        found += [(f.forecaster, Outcome(f, m.believed, task)) for f in (row.forecast, *row.forecast.tiers)]
    return found


def scores(outcomes: Sequence[Outcome]) -> CalibrationScores:
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
