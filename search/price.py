"""Price of a measurement in the currency that runs out first, and the speed-up at the roofline floor."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from forewarp.core.budget import Budget, Spend
from forewarp.core.protocols import Trial
from forewarp.core.values import Candidate, Measurement, Signature, Target
from forewarp.gpu_runner.roofline import floor_s


def relative(candidates: Sequence[Candidate], trials: Sequence[Trial], budget: Budget, spend: Spend) -> list[float]:
    """Return the expected cost of measuring each candidate, as a multiple of a typical measurement.

    Measurements all cost one. Where seconds (of the device, or of wall time) run out first at the present rate, what a
    candidate costs is the mean of the seconds that those of its language took.
    """
    if budget.device_s is None and budget.wall_s is None:
        return [1.0] * len(candidates)
    taken: dict[str, list[float]] = {}
    for t in trials:
        taken.setdefault(t.subject.candidate.language, []).append(t.measurement.device_s)
    everyone = [s for found in taken.values() for s in found if s > 0]
    if not everyone or not _seconds_bind(statistics.fmean(everyone), budget, spend):
        return [1.0] * len(candidates)
    typical = statistics.fmean(everyone)
    return [statistics.fmean(taken.get(c.language) or everyone) / typical or 1.0 for c in candidates]


def floor_speedup(measured: Measurement, signatures: Sequence[Signature], target: Target) -> float | None:
    """Return the speed-up of a kernel at the roofline floor of every workload; None where a floor is not known."""
    floors = {s.workload: floor_s(s, target) for s in signatures}
    gains = [w.anchor_median_s / floors[w.workload] for w in measured.workloads if floors.get(w.workload, 0.0) > 0]
    if not gains or len(gains) < len(signatures) or len(gains) < len(measured.workloads):
        return None
    return math.exp(statistics.fmean(map(math.log, gains)))


def _seconds_bind(typical: float, budget: Budget, spend: Spend) -> bool:
    """Return whether a cap on seconds allows fewer further measurements than the one on measurements does."""
    left = [
        (cap - spent) / typical
        for cap, spent in ((budget.device_s, spend.device_s), (budget.wall_s, spend.wall_s))
        if cap is not None
    ]
    counted = math.inf if budget.measurements is None else budget.measurements - spend.measurements
    return bool(left) and min(left) < counted
