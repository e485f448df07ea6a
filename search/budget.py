"""The part of a budget that may be searched with, and what a measurement costs in the scarcest currency."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

from forewarp.core.budget import Budget, Spend
from forewarp.core.protocols import Trial
from forewarp.core.values import Candidate


def searching(budget: Budget, spend: Spend, *, each_s: float, confirm: bool) -> Budget:
    """Return the part of the budget that is not kept back for the confirmation, which takes `each_s` of the device.

    It takes no more wall time than a measurement has taken so far. A single measurement is not confirmed.
    """
    kept = int(confirm)
    each_wall_s = min(each_s, spend.wall_s / max(1, spend.measurements))
    most = budget.measurements
    return replace(
        budget,
        measurements=None if most is None else max(min(1, most), most - kept),
        device_s=None if budget.device_s is None else budget.device_s - kept * each_s,
        wall_s=None if budget.wall_s is None else budget.wall_s - kept * each_wall_s,
    )


def relative_prices(
    candidates: Sequence[Candidate], trials: Sequence[Trial], budget: Budget, spend: Spend
) -> list[float]:
    """Return the expected cost of measuring each candidate, as a multiple of a typical measurement.

    All cost one, unless seconds run out first; then it is the mean of the seconds of its language.
    """
    by_language: dict[str, list[float]] = {}
    for t in trials:
        by_language.setdefault(t.subject.candidate.language, []).append(t.measurement.device_s)
    all_s = [s for seconds in by_language.values() for s in seconds if s > 0]
    typical = statistics.fmean(all_s) if all_s else 0.0
    if not typical or not _seconds_bind(typical, budget, spend):
        return [1.0] * len(candidates)
    return [statistics.fmean(by_language.get(c.language) or all_s) / typical or 1.0 for c in candidates]


def _seconds_bind(typical: float, budget: Budget, spend: Spend) -> bool:
    """Return whether a cap on seconds allows fewer further measurements than the one on measurements does."""
    left = [
        (cap - spent) / typical
        for cap, spent in ((budget.device_s, spend.device_s), (budget.wall_s, spend.wall_s))
        if cap is not None
    ]
    counted = math.inf if budget.measurements is None else budget.measurements - spend.measurements
    return bool(left) and min(left) < counted
