"""Intervals for figures over several tasks, by resampling whole tasks.

Candidates of one task share its reference, shapes and programs, so their errors go together: rows that are drawn one by
one would make every interval too narrow. The tasks are drawn with replacement instead, each with all of its rows (the
cluster bootstrap: Davison & Hinkley 1997, section 3.8; Field & Welsh 2007).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Picks = NDArray[np.int64]
Statistic = Callable[[Picks], float]
"""A figure of the blocks with these numbers, some of which may be there several times; NaN where it has no value."""

LEVEL = 0.95
RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class IntervalEstimate:
    """A figure with its interval. `low` and `high` are NaN where one cluster, or too few draws with a value, is all."""

    value: float
    low: float
    high: float
    level: float = LEVEL


@dataclass(frozen=True, slots=True)
class Resampled:
    """A figure, with its value in each draw of the clusters."""

    value: float
    draws: Array
    clusters: int

    def estimate(self, level: float = LEVEL) -> IntervalEstimate:
        return IntervalEstimate(self.value, *percentile_interval(self.draws, self.clusters, level), level)

    def minus(self, other: Resampled) -> Resampled:
        """Return the paired difference; both must come from the same draws of the same clusters."""
        if len(self.draws) != len(other.draws) or self.clusters != other.clusters:
            raise ValueError("a paired difference needs the same draws of the same clusters")
        return Resampled(self.value - other.value, self.draws - other.draws, self.clusters)


def cluster_draws(clusters: Sequence[str], resamples: int = RESAMPLES, seed: int = 0) -> list[Picks]:
    """Return the numbers of the blocks in each draw of clusters; the same arguments give the same draws."""
    names = list(dict.fromkeys(clusters))
    members = [np.array([i for i, c in enumerate(clusters) if c == name], dtype=np.int64) for name in names]
    if not members:
        return []
    rng = np.random.default_rng(seed)
    chosen = rng.integers(0, len(members), size=(resamples, len(members)))
    return [np.concatenate([members[k] for k in row]) for row in chosen]


def resample(statistic: Statistic, clusters: Sequence[str], draws: Sequence[Picks]) -> Resampled:
    value = statistic(np.arange(len(clusters)))
    return Resampled(value, np.array([statistic(d) for d in draws], dtype=float), len(set(clusters)))


def percentile_interval(draws: Array, clusters: int, level: float = LEVEL) -> tuple[float, float]:
    """Return the expanded percentile interval of bootstrap draws; NaN twice where too few have a value.

    Levels are moved outwards to Φ(±√(n/(n−1)) · t), t being Student's quantile with n − 1 degrees of freedom, because
    the plain interval is too narrow with few clusters (Hesterberg 2015, section 5.3).
    """
    from scipy.special import ndtr, stdtrit

    found = draws[np.isfinite(draws)]
    if clusters < 2 or len(found) == 0 or 2 * len(found) < len(draws):
        return math.nan, math.nan
    t = float(stdtrit(clusters - 1, (1.0 - level) / 2))
    outer = float(ndtr(math.sqrt(clusters / (clusters - 1)) * t))
    low, high = np.quantile(found, [outer, 1.0 - outer])
    return float(low), float(high)
