"""The eight speed-up bins: one table for prompts, labels, rewards and metrics.

A forecast is a distribution over log2 of the speed-up S = anchor time / candidate time. The edges are those that the
paper shows to its model (arXiv 2605.31464, appendix on the forecast prompt). Its released code labels with other
edges; data from there is re-binned from the speed-up with `bin_of`.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

EDGES: tuple[float, ...] = (0.25, 0.5, 2**-0.5, 1.0, 2**0.5, 2.0, 4.0)
LABELS: tuple[str, ...] = (
    "severe slow-down",
    "significant slow-down",
    "moderate slow-down",
    "minor slow-down",
    "minor speed-up",
    "significant speed-up",
    "high speed-up",
    "extreme speed-up",
)
COUNT = len(LABELS)
FIRST_FASTER = 4
"""Index of the first bin whose every member is faster than the anchor."""

# The open outer bins get two octaves each, so that quantiles and means are finite.
LOG2_BOUNDS: tuple[float, ...] = (-4.0, *(math.log2(e) for e in EDGES), 4.0)


def bin_of(speedup: float) -> int:
    """Return the index (0..7) of the bin that holds `speedup` (> 0); an edge belongs to the bin above it."""
    if not speedup > 0:
        raise ValueError(f"a speed-up must be positive, got {speedup}")
    return bisect_right(EDGES, speedup)


def ranges() -> list[tuple[str, str]]:
    """Return (label, range) of each bin in words, as prompts and tables show it."""
    shown = [f"{e:.2f}" for e in EDGES]
    spans = [f"S < {shown[0]}", *(f"{a} ≤ S < {b}" for a, b in pairwise(shown)), f"S ≥ {shown[-1]}"]
    return list(zip(LABELS, spans, strict=True))


def normalise(weights: Sequence[float]) -> tuple[float, ...]:
    """Scale eight non-negative weights to sum to one; uniform when they carry no mass."""
    if len(weights) != COUNT:
        raise ValueError(f"a forecast has {COUNT} bins, got {len(weights)}")
    clean = [max(0.0, float(w)) if math.isfinite(w) else 0.0 for w in weights]
    total = sum(clean)
    return tuple(w / total for w in clean) if total > 0 else (1.0 / COUNT,) * COUNT


def from_normal(mean_log2: float, sd_log2: float) -> tuple[float, ...]:
    """Return the bin probabilities of a normal distribution over log2 S."""
    sd = max(sd_log2, 1e-6)
    cdf = [0.0, *(0.5 * math.erfc((mean_log2 - b) / (sd * math.sqrt(2))) for b in LOG2_BOUNDS[1:-1]), 1.0]
    return normalise([b - a for a, b in pairwise(cdf)])


def quantile(probabilities: Sequence[float], level: float) -> float:
    """Return the speed-up at `level` (0..1), spreading each bin's mass evenly over its log2 range."""
    mass = 0.0
    for k, p in enumerate(probabilities):
        if mass + p >= level and p > 0:
            low, high = LOG2_BOUNDS[k], LOG2_BOUNDS[k + 1]
            return 2.0 ** (low + (high - low) * (level - mass) / p)
        mass += p
    return 2.0 ** LOG2_BOUNDS[-1]


def expected_improvement(probabilities: Sequence[float], incumbent: float) -> float:
    """Return E[max(0, log2 S − log2 incumbent)] in octaves, with each bin's mass even over its log2 range."""
    threshold = math.log2(incumbent)
    gain = 0.0
    for p, low, high in zip(probabilities, LOG2_BOUNDS, LOG2_BOUNDS[1:], strict=False):
        start = max(low, threshold)
        if start < high:
            gain += p * (high - start) / (high - low) * ((start + high) / 2 - threshold)
    return gain


def normal_improvement(mean: float, sd: float, incumbent: float) -> float:
    """Return E[max(0, log2 S − log2 incumbent)] in octaves for log2 S ~ N(mean, sd²) (Jones, Schonlau, Welch 1998)."""
    ahead = mean - math.log2(incumbent)
    if sd <= 0:
        return max(0.0, ahead)
    z = ahead / sd
    return ahead * 0.5 * math.erfc(-z / math.sqrt(2)) + sd * math.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def spread_log2(probabilities: Sequence[float]) -> float:
    """Return the standard deviation of log2 S in octaves, with each bin's mass even over its range."""
    mean = mean_log2(probabilities)
    second = sum(
        p * (a * a + a * b + b * b) / 3 for p, a, b in zip(probabilities, LOG2_BOUNDS, LOG2_BOUNDS[1:], strict=False)
    )
    return math.sqrt(max(0.0, second - mean * mean))


def mean_log2(probabilities: Sequence[float]) -> float:
    """Return the mean of log2 S."""
    return sum(p * (a + b) / 2 for p, a, b in zip(probabilities, LOG2_BOUNDS, LOG2_BOUNDS[1:], strict=False))
