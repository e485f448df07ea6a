"""What dividing advantages by a group's spread does to probabilities, on a policy that is a table."""

from __future__ import annotations

import numpy as np
import pytest

from forewarp.surrogate.rewards import RewardShape, reward

LEVELS = np.linspace(0, 1, 21)
TRUTH = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
FAST, SLOW = 1.2, 0.6


def learned(shape: RewardShape, scale: str, steps: int = 400, prompts: int = 64, group: int = 8) -> np.ndarray:
    """Return the probability of the fast bin that a policy over `LEVELS` ends with where `TRUTH` holds."""
    table = np.array([[reward(_said(q), s, shape) for s in (SLOW, FAST)] for q in LEVELS])
    rng = np.random.default_rng(0)
    logits = np.zeros((len(TRUTH), len(LEVELS)))
    for _ in range(steps):
        policy = np.exp(logits - logits.max(axis=1, keepdims=True))
        policy /= policy.sum(axis=1, keepdims=True)
        outcome = (rng.random((len(TRUTH), prompts)) < TRUTH[:, None]).astype(int)
        below = policy.cumsum(axis=1)
        drawn = (rng.random((len(TRUTH), prompts, group, 1)) > below[:, None, None, :-1]).sum(axis=-1)
        earned = table[drawn, outcome[:, :, None]]
        advantage = earned - earned.mean(axis=2, keepdims=True)
        if scale == "group":
            advantage /= earned.std(axis=2, ddof=1, keepdims=True) + 1e-4
        for c in range(len(TRUTH)):
            each = np.bincount(drawn[c].ravel(), advantage[c].ravel(), len(LEVELS))
            logits[c] += (each - policy[c] * advantage[c].sum()) * 4.0 / (prompts * group)
    return logits.argmax(axis=1) / (len(LEVELS) - 1)


def _said(q: float) -> list[float]:
    return [0.0, 0.0, 1 - q, 0.0, q, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("shape", ["brier", "crps", "decision"])
def test_centred_advantages_find_the_frequencies_and_scaled_ones_do_not(shape: RewardShape) -> None:
    assert np.abs(learned(shape, "none") - TRUTH).max() < 0.11
    scaled = learned(shape, "group")
    assert scaled[:2].max() <= 0.05
    assert scaled[3:].min() >= 0.95
