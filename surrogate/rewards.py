"""Rewards for training a forecaster by reinforcement learning: one measured outcome scores one forecast.

Every score but plain correctness is strictly proper: no forecast has an expected reward as high as the honest one.
Adding the correctness term keeps that, and is what the paper trains with (arXiv 2605.31464, reward section). Group
advantages must only be centred, never divided by the group's standard deviation: with one shared outcome that moves the
optimum from the mean of the outcome to its median, and every probability to 0 or 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from forewarp.core import bins
from forewarp.surrogate.evaluation import metrics

RewardShape = Literal["correctness", "brier", "crps", "decision"]
"""Kinds of reward for a forecast; the last three add their score to correctness."""

FAILED = 0.0
"""The reward of an answer that cannot be read, in every term."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The parts of a reward, each in [0, 1]: was the likeliest bin right, and how good were the probabilities."""

    correctness: float
    score: float

    @property
    def total(self) -> float:
        return self.correctness + self.score


def terms(probabilities: Sequence[float], speedup: float, shape: RewardShape) -> Terms:
    """Return the parts of the reward of a forecast once `speedup` is measured; `ValueError` for other than 8 bins."""
    outcome = bins.bin_of(speedup)
    correct = float(max(range(len(probabilities)), key=probabilities.__getitem__) == outcome)
    if shape == "brier":
        return Terms(correct, 1.0 - metrics.brier([probabilities], [outcome]))
    if shape == "crps":
        return Terms(correct, 1.0 - metrics.crps([probabilities], [outcome]))
    return Terms(correct, profit(probabilities, outcome) if shape == "decision" else 0.0)


def reward(probabilities: Sequence[float] | None, speedup: float, shape: RewardShape = "brier") -> float:
    """Return the reward, 0 to 2 (0 to 1 for plain correctness); an answer that could not be read (None) gets 0."""
    return FAILED if probabilities is None else terms(probabilities, speedup, shape).total


def profit(probabilities: Sequence[float], outcome: int) -> float:
    """Return the gain of deciding by this forecast: 1 for that of a clairvoyant, 0 for being surely wrong each time.

    The rival is each inner edge in turn. One measures if the probability q of beating it exceeds the price c, and gains
    1 − c where it is beaten, else −c. Prices have density 1/(2√c) on (0, 1): small chances matter most. Integrated, the
    gain is y·√q − q^1.5/3, a clairvoyant's 2y/3. Acting on what one believes is best at every price, so honesty is,
    too.
    """
    if len(probabilities) != bins.COUNT:
        raise ValueError(f"a forecast has {bins.COUNT} bins, got {len(probabilities)}")
    beats = [min(1.0, max(0.0, 1.0 - below)) for below in accumulate(probabilities[:-1])]
    regret = [q**1.5 / 3 + (2 / 3 - math.sqrt(q) if outcome > edge else 0.0) for edge, q in enumerate(beats)]
    return 1.0 - 1.5 * sum(regret) / len(regret)


def validity(p_valid: float, valid: bool) -> float:
    """Return the reward of a probability of being valid, 0 to 1: one minus its squared distance from the outcome."""
    return 1.0 - (p_valid - float(valid)) ** 2


def skill(mean: float, climatology: float, best: float) -> float:
    """Return a mean reward on a scale where always giving the frequencies of the training set is 0, perfect is 1."""
    return (mean - climatology) / (best - climatology) if best > climatology else math.nan


def best(shape: RewardShape) -> float:
    return 1.0 if shape == "correctness" else 2.0
