from __future__ import annotations

import numpy as np
import pytest

from forewarp.surrogate.rewards import reward

ONE_HOT = [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]


def test_reward_by_hand() -> None:
    assert reward(ONE_HOT, 1.2) == pytest.approx(2.0)
    assert reward(ONE_HOT, 1.5) == pytest.approx(1 - 1 / 7)
    assert reward(ONE_HOT, 1.5, "correctness_brier") == pytest.approx(0.0)
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
