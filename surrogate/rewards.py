"""Rewards for training a forecaster by reinforcement learning: one measured outcome scores one forecast.

Brier and the ranked probability score, as `metrics` defines them, are proper: no forecast has a higher expected reward
than the honest one. Adding the correctness term keeps that, and is what the paper trains with (arXiv 2605.31464, reward
section). Group advantages must only be centred, never divided by the group's standard deviation: with one shared
outcome that moves the optimum from the mean of the outcome to its median, and every probability to 0 or 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from forewarp.core import bins
from forewarp.surrogate import metrics

Shape = Literal["correctness", "correctness_brier", "correctness_rps"]


def reward(probabilities: Sequence[float] | None, speedup: float, shape: Shape = "correctness_rps") -> float:
    """Return the reward, 0 to 2 (0 to 1 for plain correctness), of a forecast once `speedup` is measured.

    An answer that could not be parsed (None) gets 0 in every term; raises `ValueError` for other than eight bins.
    """
    if probabilities is None:
        return 0.0
    outcome = bins.bin_of(speedup)
    correct = float(max(range(len(probabilities)), key=probabilities.__getitem__) == outcome)
    if shape == "correctness":
        return correct
    score = metrics.brier if shape == "correctness_brier" else metrics.crps
    return correct + 1.0 - score([probabilities], [outcome])
