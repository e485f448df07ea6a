from __future__ import annotations

import math

import numpy as np
import pytest

from forewarp.gpu_runner import statistics


def test_block_log_ratio_by_hand() -> None:
    # Two blocks; candidate 1 s and 4 s (geometric mean 2), anchor 8 s twice: log(8/2); then equal arms: 0.
    ratios = statistics.block_log_ratios([1.0, 4.0, 3.0, 3.0], [8.0, 8.0, 3.0, 3.0])
    assert ratios == pytest.approx([math.log(4), 0.0])


def test_drift_cancels_within_a_block() -> None:
    # The clock slows by 1 % a sample in ABBA order: candidate takes samples 0 and 3, anchor 1 and 2.
    drift = [1.01**i for i in range(40)]
    candidate = [drift[i] for b in range(10) for i in (4 * b, 4 * b + 3)]
    anchor = [2 * drift[i] for b in range(10) for i in (4 * b + 1, 4 * b + 2)]
    timed = statistics.timing("w", candidate, anchor, 0.0)
    assert timed.speedup == pytest.approx(2.0, rel=1e-9)
    assert (timed.low, timed.high) == pytest.approx((2.0, 2.0), rel=1e-9)


def test_interval_covers_the_truth() -> None:
    rng = np.random.default_rng(7)
    covered = 0
    for _ in range(200):
        candidate = np.exp(rng.normal(0.0, 0.05, 40))
        anchor = 1.5 * np.exp(rng.normal(0.0, 0.05, 40))
        timed = statistics.timing("w", candidate.tolist(), anchor.tolist(), 0.0)
        covered += timed.low <= 1.5 <= timed.high
    assert 180 <= covered <= 199


def test_one_outlier_moves_nothing() -> None:
    candidate, anchor = [1.0] * 40, [2.0] * 40
    candidate[7] = 50.0
    assert statistics.timing("w", candidate, anchor, 0.0).speedup == pytest.approx(2.0)


def test_geometric_mean_of_workloads() -> None:
    fast = statistics.timing("a", [1.0] * 16, [4.0] * 16, 0.0)
    slow = statistics.timing("b", [1.0] * 16, [1.0] * 16, 0.0)
    assert statistics.geometric_mean([fast, slow]) == pytest.approx((2.0, 2.0, 2.0))


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1.02, 1.10, "faster"),
        (0.80, 0.98, "slower"),
        (0.995, 1.005, "tie"),
        (0.97, 1.20, "inconclusive"),
        (1.005, 1.20, "inconclusive"),
    ],
)
def test_verdict(low: float, high: float, expected: str) -> None:
    assert statistics.verdict(low, high) == expected
