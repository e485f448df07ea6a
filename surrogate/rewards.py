"""Rewards for training a forecaster by reinforcement learning: one measured outcome scores one forecast.

Brier and the ranked probability score are proper: no forecast has a higher expected reward than the honest one. Adding
the correctness term keeps that, and is what the paper trains with (arXiv 2605.31464, reward section). Group advantages
must only be centred, never divided by the group's standard deviation: with one shared outcome that moves the optimum
from the mean of the outcome to its median, and every probability to 0 or 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from forewarp.core import bins

Shape = Literal["correctness", "correctness_brier", "correctness_rps"]


def brier(probabilities: Sequence[float], outcome: int) -> float:
    """Return the half Brier score, 0 (best) to 1, of a forecast against the bin that came true."""
    return 0.5 * sum((p - (k == outcome)) ** 2 for k, p in enumerate(probabilities))


def rps(probabilities: Sequence[float], outcome: int) -> float:
    """Return the ranked probability score, 0 (best) to 1: the discrete CRPS over the bins' order."""
    total, cumulative = 0.0, 0.0
    for k, p in enumerate(probabilities[:-1]):
        cumulative += p
        total += (cumulative - (k >= outcome)) ** 2
    return total / (len(probabilities) - 1)


def reward(probabilities: Sequence[float] | None, speedup: float, shape: Shape = "correctness_rps") -> float:
    """Return the reward, 0 to 2 (0 to 1 for plain correctness), of a forecast once `speedup` is measured.

    An answer that could not be parsed (None) gets 0 in every term.
    """
    if probabilities is None:
        return 0.0
    outcome = bins.bin_of(speedup)
    correct = float(max(range(len(probabilities)), key=probabilities.__getitem__) == outcome)
    if shape == "correctness":
        return correct
    score = brier(probabilities, outcome) if shape == "correctness_brier" else rps(probabilities, outcome)
    return correct + 1.0 - score
