from __future__ import annotations

import math
from typing import get_args

import numpy as np
import pytest

from forewarp.surrogate import rewards
from forewarp.surrogate.rewards import RewardShape, reward

ONE_HOT = [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
MIDDLES = [0.2, 0.4, 0.6, 0.8, 1.2, 1.7, 3.0, 5.0]
SHAPES: tuple[RewardShape, ...] = get_args(RewardShape)
PROPER: tuple[RewardShape, ...] = ("brier", "crps", "decision")


def expected(forecast: np.ndarray, truth: np.ndarray, shape: RewardShape) -> float:
    return sum(t * reward(forecast.tolist(), s, shape) for t, s in zip(truth, MIDDLES, strict=True))


def test_reward_by_hand() -> None:
    assert reward(ONE_HOT, 1.2, "crps") == pytest.approx(2.0)
    assert reward(ONE_HOT, 1.5, "crps") == pytest.approx(1 - 1 / 7)
    assert reward(ONE_HOT, 1.5, "brier") == pytest.approx(0.0)
    assert reward(ONE_HOT, 1.5, "correctness") == 0.0
    assert reward(ONE_HOT, 1.2, "decision") == pytest.approx(2.0)
    # Surely not above the edge at 1.41, and it was: of that rival alone, all that could be gained is lost.
    assert reward(ONE_HOT, 1.5, "decision") == pytest.approx(1 - 1 / 7)
    # Surely above the edge at 1, and it was not: every price was paid for nothing, 1/3 on average.
    assert reward(ONE_HOT, 0.8, "decision") == pytest.approx(1 - 0.5 / 7)
    assert all(reward(None, 1.2, shape) == 0.0 for shape in SHAPES)


@pytest.mark.parametrize("shape", SHAPES)
def test_no_dishonest_forecast_is_worth_more(shape: RewardShape) -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        truth = rng.dirichlet(np.ones(8) * rng.choice([0.2, 1.0, 5.0]))
        honest = expected(truth, truth, shape)
        for other in (rng.dirichlet(truth * 20 + 0.05), rng.dirichlet(np.ones(8)), np.eye(8)[truth.argmax()]):
            assert honest >= expected(other, truth, shape) - 1e-12


@pytest.mark.parametrize("shape", PROPER)
def test_the_honest_forecast_alone_is_worth_most(shape: RewardShape) -> None:
    rng = np.random.default_rng(4)
    for _ in range(50):
        truth = rng.dirichlet(np.ones(8) * 3)
        other = 0.9 * truth + 0.1 * rng.dirichlet(np.ones(8))
        assert expected(truth, truth, shape) > expected(other, truth, shape)


def test_correctness_alone_does_not_mind_what_the_probabilities_are() -> None:
    truth = np.array([0.05, 0.05, 0.1, 0.1, 0.4, 0.1, 0.1, 0.1])
    assert expected(np.eye(8)[4], truth, "correctness") == expected(truth, truth, "correctness")


@pytest.mark.parametrize("shape", SHAPES)
def test_rewards_stay_in_their_range(shape: RewardShape) -> None:
    rng = np.random.default_rng(5)
    found = [reward(rng.dirichlet(np.ones(8) * 0.3).tolist(), float(rng.choice(MIDDLES)), shape) for _ in range(500)]
    assert min(found) >= 0.0
    assert max(found) <= rewards.best(shape)


def test_validity_is_proper() -> None:
    for truth in (0.1, 0.5, 0.9):
        said = np.linspace(0, 1, 101)
        worth = [truth * rewards.validity(q, True) + (1 - truth) * rewards.validity(q, False) for q in said]
        assert said[int(np.argmax(worth))] == pytest.approx(truth)


def test_skill_is_measured_from_climatology() -> None:
    assert rewards.skill(1.2, 1.2, 2.0) == 0.0
    assert rewards.skill(2.0, 1.2, 2.0) == 1.0
    assert rewards.skill(1.0, 1.2, 2.0) < 0
    assert math.isnan(rewards.skill(1.0, 2.0, 2.0))
