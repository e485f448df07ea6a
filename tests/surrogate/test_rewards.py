from __future__ import annotations

import numpy as np
import pytest

from forewarp.surrogate.rewards import brier, reward, rps

ONE_HOT = [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
UNIFORM = [1 / 8] * 8


def test_scores_by_hand() -> None:
    assert brier(ONE_HOT, 4) == rps(ONE_HOT, 4) == 0.0
    assert brier(ONE_HOT, 5) == pytest.approx(1.0)
    assert rps(ONE_HOT, 5) == pytest.approx(1 / 7)
    assert rps(ONE_HOT, 0) == pytest.approx(4 / 7)
    # 7 bins off by 1/8 and one by 7/8: 0.5 · (7/64 + 49/64).
    assert brier(UNIFORM, 2) == pytest.approx(0.4375)
    # Sum over k = 1..7 of (k/8 - 1)² for the first bin: (49+36+25+16+9+4+1)/64 = 140/64, over 7.
    assert rps(UNIFORM, 0) == pytest.approx(140 / 64 / 7)


def test_reward_by_hand() -> None:
    assert reward(ONE_HOT, 1.2) == pytest.approx(2.0)
    assert reward(ONE_HOT, 1.5) == pytest.approx(1 - 1 / 7)
    assert reward(ONE_HOT, 1.5, "correctness") == 0.0
    assert reward(None, 1.2) == 0.0


@pytest.mark.parametrize("shape", ["correctness_brier", "correctness_rps"])
def test_no_dishonest_forecast_is_worth_more(shape: str) -> None:
    rng = np.random.default_rng(3)
    middles = [0.2, 0.4, 0.6, 0.8, 1.2, 1.7, 3.0, 5.0]
    for _ in range(300):
        truth = rng.dirichlet(np.ones(8))
        other = rng.dirichlet(truth * 20 + 0.05)

        def expected(forecast: np.ndarray, truth: np.ndarray = truth) -> float:
            return sum(t * reward(forecast.tolist(), s, shape) for t, s in zip(truth, middles, strict=True))  # type: ignore[arg-type]

        assert expected(truth) >= expected(other) - 1e-12
