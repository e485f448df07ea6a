"""Speed-ups from interleaved samples: block log-ratios, their median, and a bootstrap interval.

Candidate (A) and anchor (B) alternate in ABBA or BAAB blocks, so that slow drift of clocks cancels within a block. Each
block gives one log-ratio; blocks are the unit of resampling, because samples inside one are not independent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from forewarp.core.values import Verdict, WorkloadTiming

RESAMPLES = 2000
LEVEL = 0.95
MARGIN = math.log(1.01)
"""Two kernels within ±1 % of each other are a tie."""


def block_log_ratios(candidate_s: Sequence[float], anchor_s: Sequence[float]) -> np.ndarray:
    """Return log(anchor / candidate) per block of two samples of each arm; shape (blocks,)."""
    a = np.log(np.asarray(candidate_s, dtype=float)).reshape(-1, 2).mean(axis=1)
    b = np.log(np.asarray(anchor_s, dtype=float)).reshape(-1, 2).mean(axis=1)
    return b - a


def timing(
    workload: str, candidate_s: Sequence[float], anchor_s: Sequence[float], error_ratio: float
) -> WorkloadTiming:
    """Summarise one workload's samples (seconds, in the order taken, two of each arm per block)."""
    ratios = block_log_ratios(candidate_s, anchor_s)
    low, high = _interval(_bootstrap_medians(ratios, np.random.default_rng(0)))
    return WorkloadTiming(
        workload=workload,
        speedup=math.exp(float(np.median(ratios))),
        low=math.exp(low),
        high=math.exp(high),
        candidate_median_s=float(np.median(candidate_s)),
        anchor_median_s=float(np.median(anchor_s)),
        error_ratio=error_ratio,
        log_ratios=tuple(ratios.tolist()),
        candidate_s=tuple(candidate_s),
        anchor_s=tuple(anchor_s),
    )


def geometric_mean(timings: Sequence[WorkloadTiming]) -> tuple[float, float, float]:
    """Return the geometric mean of the workloads' speed-ups with its 95 % interval."""
    rng = np.random.default_rng(0)
    means = np.mean([_bootstrap_medians(np.asarray(t.log_ratios), rng) for t in timings], axis=0)
    low, high = _interval(means)
    return math.exp(sum(math.log(t.speedup) for t in timings) / len(timings)), math.exp(low), math.exp(high)


def verdict(low: float, high: float) -> Verdict:
    """Judge an interval of the speed-up against the ±1 % margin."""
    if math.log(low) > MARGIN:
        return "faster"
    if math.log(high) < -MARGIN:
        return "slower"
    return "tie" if math.log(low) >= -MARGIN and math.log(high) <= MARGIN else "inconclusive"


def _bootstrap_medians(ratios: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    picks = rng.integers(0, len(ratios), size=(RESAMPLES, len(ratios)))
    return np.median(ratios[picks], axis=1)


def _interval(draws: np.ndarray) -> tuple[float, float]:
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(draws, [tail, 1 - tail])
    return float(low), float(high)
