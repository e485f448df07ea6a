"""Scores of replies: the reward of one row, and the figures of a set of replies that are watched."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from forewarp.core import bins
from forewarp.core.values import Forecast
from forewarp.surrogate import replies, rewards
from forewarp.surrogate.evaluation import metrics
from forewarp.training.config import Reward

Speedups = Sequence[float | None]
"""Measured speed-ups of the candidates of one prompt, None where one turned out invalid."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A reply with its reward, None if nothing asked about is rewarded; no forecasts if it cannot be read."""

    reward: float | None
    terms: Mapping[str, float]
    forecasts: tuple[Forecast, ...] = ()


def score(text: str, speedups: Speedups, reward: Reward) -> Scored:
    """Read a reply and return it with its reward: its shape's terms over valid candidates, plus validity over all."""
    reply = replies.read(text, len(speedups))
    if reply is None:
        return Scored(rewards.FAILED, {"parsed": 0.0})
    forecasts = tuple(replies.pooled(replies.about(reply, i)[:1], "", "") for i in range(len(speedups)))
    earned = [
        rewards.terms(f.probabilities, s, reward.shape)
        for f, s in zip(forecasts, speedups, strict=True)
        if s is not None
    ]
    terms = {"parsed": 1.0}
    if earned:
        terms["correctness"] = sum(t.correctness for t in earned) / len(earned)
        terms["score"] = sum(t.score for t in earned) / len(earned)
    total = sum(terms[name] for name in ("correctness", "score") if name in terms)
    if reward.validity:
        each = [rewards.validity(f.p_valid, s is not None) for f, s in zip(forecasts, speedups, strict=True)]
        terms["validity"] = sum(each) / len(each)
        total += reward.validity * terms["validity"]
    return Scored(total if earned or reward.validity else None, terms, forecasts)


def figures(
    scored: Sequence[Scored], asked: Sequence[Speedups], shape: rewards.RewardShape, climatology: Sequence[float]
) -> dict[str, float]:
    """Return the watched figures of replies, unread ones as uniform; `skill` is against always giving `climatology`."""
    even = (1.0 / bins.COUNT,) * bins.COUNT
    p: list[Sequence[float]] = []
    earned, plain, measured = list[float](), list[float](), list[float]()
    for one, speedups in zip(scored, asked, strict=True):
        for i, speedup in enumerate(speedups):
            if speedup is None:
                continue
            p.append(one.forecasts[i].probabilities if one.forecasts else even)
            earned.append(rewards.reward(p[-1] if one.forecasts else None, speedup, shape))
            plain.append(rewards.reward(climatology, speedup, shape))
            measured.append(speedup)
    y = metrics.bins_of(measured)
    right = np.array([max(range(bins.COUNT), key=row.__getitem__) for row in p], dtype=int) == y
    return {
        "parsed": _mean([s.terms["parsed"] for s in scored]),
        "accuracy": metrics.accuracy(p, y),
        "within_one": metrics.accuracy(p, y, within=1),
        "ece": metrics.ece(p, y),
        "brier": metrics.brier(p, y),
        "crps": metrics.crps(p, y),
        "entropy": metrics.entropy(p),
        "confidence": _mean([max(row) for row in p]),
        "auroc": metrics.auroc([max(row) for row in p], right),
        "skill": rewards.skill(_mean(earned), _mean(plain), rewards.best(shape)),
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan
