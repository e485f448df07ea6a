"""Thresholds that keep an error rate, with a guarantee for finitely many outcomes.

Two kinds of promise:

* `selective`: among what is decided without measuring, at most a share alpha is wrong, with probability 1 − delta over
  the outcomes (Geifman and El-Yaniv 2017; one threshold of Learn then Test, Angelopoulos et al. 2021).
* `expected`: of everything, or of everything of one kind, at most a share alpha is decided wrongly, on average over
  outcomes (conformal risk control, Angelopoulos et al. 2024; with one outcome to a group and a loss of 0 or 1 it is
  split conformal prediction).

Both need new candidates to be exchangeable with those of the outcomes. A search that improves breaks this slowly, a new
task breaks it at once: with groups, whole tasks are the units of `expected`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from forewarp.core import bins
from forewarp.surrogate.calibration import Outcome

Array = NDArray[np.float64]

DELTA = 0.1
"""Probability that the promise of `selective` does not hold, at most."""

_RANKS = 6


@dataclass(frozen=True, slots=True)
class Threshold:
    """A threshold with its results on the outcomes that it was chosen on.

    Decide what scores above `value`; None where no threshold keeps the promise: then nothing may be decided without
    measuring. `decided` is the share of outcomes that it decides, `error` the share of those that were wrong. `needed`
    is how many outcomes (or groups) the promise takes at least, `outcomes` how many there were.
    """

    value: float | None
    alpha: float
    decided: float
    error: float
    outcomes: int
    needed: int


def abstention(outcomes: Sequence[Outcome], alpha: float, *, delta: float = DELTA) -> Threshold:
    """Return the confidence above which the likeliest bin may be stated: at most alpha of such statements is wrong.

    Only valid candidates count, since a bin says nothing of the others.
    """
    timed = [(o.forecast, o.speedup) for o in outcomes if o.valid and o.speedup]
    wrong = [int(np.argmax(f.probabilities)) != bins.bin_of(s) for f, s in timed]
    return selective([f.confidence for f, _ in timed], wrong, alpha, delta=delta)


def discard(outcomes: Sequence[Outcome], alpha: float, *, delta: float = DELTA) -> Threshold:
    """Return the probability of beating the incumbent below which candidates may be discarded.

    At most alpha of what is discarded would have beaten it. Discard what lies below `value`.
    """
    return _below(selective([1 - p_better(o) for o in outcomes], [beats(o) for o in outcomes], alpha, delta=delta))


def keep_winners(outcomes: Sequence[Outcome], alpha: float, *, by_task: bool = False) -> Threshold:
    """Return the probability below which candidates may be discarded so that at most alpha of the winners is lost.

    A winner beats the incumbent. The share is an average over winners, or over tasks of their shares with `by_task`;
    `error` is the share of the winners that is lost.
    """
    won = [o for o in outcomes if beats(o)]
    groups = [o.task for o in won] if by_task else None
    found = expected([1 - p_better(o) for o in won], [True] * len(won), alpha, groups=groups)
    if found.value is None:
        return found
    gone = [o for o in outcomes if 1 - p_better(o) > found.value]
    lost = sum(beats(o) for o in gone) / max(1, len(won))
    return _below(replace(found, decided=len(gone) / max(1, len(outcomes)), error=lost))


def p_better(outcome: Outcome) -> float:
    """Return the forecast probability of being valid and faster than the incumbent."""
    forecast, limit = outcome.forecast, math.log2(outcome.incumbent)
    if forecast.mean_log2 is not None and forecast.sd_log2 is not None:
        return (
            forecast.p_valid
            * 0.5
            * math.erfc((limit - forecast.mean_log2) / (max(forecast.sd_log2, 1e-6) * math.sqrt(2)))
        )
    faster = math.fsum(
        p * min(1.0, max(0.0, (high - limit) / (high - low)))
        for p, low, high in zip(forecast.probabilities, bins.LOG2_BOUNDS, bins.LOG2_BOUNDS[1:], strict=False)
    )
    return forecast.p_valid * min(1.0, faster)


def beats(outcome: Outcome) -> bool:
    """Return whether the candidate was valid and faster than the incumbent."""
    return outcome.valid and (outcome.speedup or 0.0) > outcome.incumbent


def selective(scores: ArrayLike, wrong: ArrayLike, alpha: float, *, delta: float = DELTA) -> Threshold:
    """Return the lowest threshold above which at most alpha is wrong, with probability 1 − delta.

    `scores` lie in [0, 1]. Given the score of rank k + 1, the k above it are independent draws from what lies above it,
    so the exact binomial bound holds; six ranks, fixed by the number of outcomes, share delta among them.
    """
    score, errors = _pair(scores, wrong, alpha)
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie between 0 and 1, got {delta}")
    level = delta / _RANKS
    fewest = math.ceil(math.log(level) / math.log1p(-alpha))
    best: float | None = None
    if len(score) >= fewest:
        falling = np.append(np.sort(score)[::-1], 0.0)
        for rank in np.unique(np.geomspace(fewest, len(score), _RANKS).round().astype(int)):
            chosen = score > falling[rank]
            if _binomial_tail(int(errors[chosen].sum()), int(chosen.sum()), alpha) <= level:
                best = float(falling[rank])
    return _threshold(best, alpha, score, errors, len(score), fewest)


def expected(scores: ArrayLike, wrong: ArrayLike, alpha: float, *, groups: Sequence[str] | None = None) -> Threshold:
    """Return the lowest threshold such that on average at most alpha of a new group is decided and wrong.

    A group's loss is the share of its members that score above the threshold and are wrong; it falls as the threshold
    rises, and n groups bound the next one by (sum of losses + 1) / (n + 1) ≤ alpha. Without groups each outcome is one.
    """
    score, errors = _pair(scores, wrong, alpha)
    names = [str(i) for i in range(len(score))] if groups is None else list(groups)
    sizes = {name: names.count(name) for name in set(names)} if groups is not None else dict.fromkeys(names, 1)
    fewest = math.ceil(1 / alpha - 1 - 1e-9)
    best: float | None = None
    if len(sizes) >= fewest and len(sizes) > 0:
        best, room = 0.0, alpha * (len(sizes) + 1) - 1 + 1e-9
        shares = errors / np.array([sizes[name] for name in names])
        order = np.argsort(-score, kind="stable")
        over = np.flatnonzero(np.cumsum(shares[order]) > room)
        if over.size:
            best = float(score[order[over[0]]])
    return _threshold(best, alpha, score, errors, len(sizes), fewest)


def _pair(scores: ArrayLike, wrong: ArrayLike, alpha: float) -> tuple[Array, NDArray[np.bool_]]:
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, got {alpha}")
    score, errors = np.asarray(scores, float), np.asarray(wrong, bool)
    if score.shape != errors.shape:
        raise ValueError(f"{score.shape} scores, but {errors.shape} outcomes")
    return score, errors


def _binomial_tail(errors: int, count: int, alpha: float) -> float:
    """Return P(X ≤ errors) for X ~ Binomial(count, alpha): how likely so few errors are at a rate of alpha."""
    from scipy.special import bdtr

    return float(bdtr(errors, count, alpha)) if count else 1.0


def _threshold(
    value: float | None, alpha: float, score: Array, errors: NDArray[np.bool_], outcomes: int, needed: int
) -> Threshold:
    decided = score > value if value is not None else np.zeros(len(score), dtype=bool)
    error = float(errors[decided].mean()) if decided.any() else 0.0
    share = float(decided.mean()) if len(decided) else 0.0
    return Threshold(value, alpha, share, error, outcomes, needed)


def _below(found: Threshold) -> Threshold:
    return found if found.value is None else replace(found, value=1 - found.value)
