"""Metrics of forecasts against measured outcomes. Plain numpy; every definition is in its docstring.

`p` is an array of forecasts, a row of eight bin probabilities each; `y` holds the measured bin of each row (0..7), and
`speedups` the measured speed-ups. Functions that average return NaN for no rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from forewarp.core import bins

Array = NDArray[np.float64]

NLL_FLOOR = 1e-12


@dataclass(frozen=True, slots=True)
class Bucket:
    """Forecast probabilities between `low` and `high`: their number, their mean, and how often it came true."""

    low: float
    high: float
    count: int
    forecast: float
    observed: float


def bins_of(speedups: Sequence[float]) -> NDArray[np.int64]:
    return np.array([bins.bin_of(s) for s in speedups], dtype=np.int64)


def accuracy(p: ArrayLike, y: ArrayLike, within: int = 0) -> float:
    """Share of rows whose likeliest bin is the measured one, or at most `within` bins away from it."""
    forecast, measured = _rows(p, y)
    return _mean(np.abs(forecast.argmax(axis=1) - measured) <= within)


def brier(p: ArrayLike, y: ArrayLike) -> float:
    """Half the mean squared distance to the outcome, ½·Σ_b (p_b − y_b)², in [0, 1] (Brier 1950, halved)."""
    forecast, measured = _rows(p, y)
    return _mean(0.5 * ((forecast - _one_hot(measured)) ** 2).sum(axis=1))


def crps(p: ArrayLike, y: ArrayLike) -> float:
    """Ranked probability score (Epstein 1969) over its largest value: (1/7)·Σ_k (F_k − [y ≤ k])² at inner edges."""
    forecast, measured = _rows(p, y)
    steps = np.cumsum(forecast, axis=1) - np.cumsum(_one_hot(measured), axis=1)
    return _mean((steps[:, :-1] ** 2).sum(axis=1) / (bins.COUNT - 1))


def nll(p: ArrayLike, y: ArrayLike) -> float:
    """Mean negative log-likelihood in nats, −ln max(p_y, 1e-12)."""
    forecast, measured = _rows(p, y)
    return _mean(-np.log(np.maximum(forecast[np.arange(len(measured)), measured], NLL_FLOOR)))


def ece(p: ArrayLike, y: ArrayLike, buckets: int = 10) -> float:
    """Expected calibration error of the likeliest bin's confidence, as `event_ece` (Naeini 2015; Guo 2017)."""
    forecast, measured = _rows(p, y)
    return event_ece(forecast.max(axis=1), forecast.argmax(axis=1) == measured, buckets)


def event_ece(p_event: ArrayLike, happened: ArrayLike, buckets: int = 10) -> float:
    """Σ n_i/N · |mean forecast − share that happened| of an event, over equal-width buckets, each (low, high]."""
    said, truth = np.asarray(p_event, float), np.asarray(happened, float)
    if len(said) == 0:
        return math.nan
    return sum(b.count * abs(b.forecast - b.observed) for b in _table(said, truth, buckets)) / len(said)


def event_brier(p_event: ArrayLike, happened: ArrayLike) -> float:
    """Mean squared difference of an event's forecast probability and 1 or 0, whether it happened (Brier 1950)."""
    return _mean((np.asarray(p_event, float) - np.asarray(happened, float)) ** 2)


def entropy(p: ArrayLike) -> float:
    """Mean Shannon entropy of the eight probabilities in nats: 0 if all are sure, ln 8 = 2.08 if all are uniform."""
    forecast = np.asarray(p, float).reshape(-1, bins.COUNT)
    logs = np.log(np.where(forecast > 0, forecast, 1.0))
    return _mean(-(forecast * logs).sum(axis=1))


def pair_outcomes(scores: ArrayLike, speedups: ArrayLike, apart: float = 0.1) -> Array:
    """Return for each pair of speed-ups a factor 1 + `apart` apart if scores order it so: 1, 0, tied one half."""
    score, logs = np.asarray(scores, float), np.log(np.asarray(speedups, float))
    first, second = np.triu_indices(len(score), 1)
    real, said = logs[first] - logs[second], score[first] - score[second]
    counted = np.abs(real) > math.log1p(apart)
    return 0.5 * (1.0 + np.sign(real[counted]) * np.sign(said[counted]))


def spearman(a: ArrayLike, b: ArrayLike) -> float:
    """Spearman's rank correlation: Pearson's of the ranks (ties share their mean); NaN if a side is constant."""
    x, y = _ranks(np.asarray(a, float)), _ranks(np.asarray(b, float))
    if len(x) < 2 or x.std() == 0 or y.std() == 0:
        return math.nan
    return float(np.corrcoef(x, y)[0, 1])


def auroc(scores: ArrayLike, positive: ArrayLike) -> float:
    """Probability that a random positive scores above a random negative, ties one half; NaN if a class is missing."""
    score, truth = np.asarray(scores, float), np.asarray(positive, bool)
    n, m = int(truth.sum()), int((~truth).sum())
    if n == 0 or m == 0:
        return math.nan
    return float((_ranks(score)[truth].sum() - n * (n + 1) / 2) / (n * m))


def reliability(p_event: ArrayLike, happened: ArrayLike, buckets: int = 10) -> list[Bucket]:
    """Return the reliability table of an event's forecast probability, such as `p_faster`, without empty buckets."""
    return _table(np.asarray(p_event, float), np.asarray(happened, float), buckets)


def coverage(lows: ArrayLike, highs: ArrayLike, speedups: ArrayLike) -> float:
    """Share of measured speed-ups inside their forecast intervals; 0.8 is right for the central 80 % intervals."""
    measured = np.asarray(speedups, float)
    return _mean((np.asarray(lows, float) <= measured) & (measured <= np.asarray(highs, float)))


def recovery(scores: ArrayLike, speedups: ArrayLike, share: float = 0.1) -> float:
    """Best speed-up among the top `share` by score, at least one row, divided by the best of all.

    Where a tie straddles the limit the expected best over its orderings is used. NaN or zero is an invalid candidate.
    """
    score, measured = np.asarray(scores, float), np.nan_to_num(np.asarray(speedups, float), nan=0.0)
    if len(measured) == 0 or measured.max() <= 0:
        return math.nan
    sure, tied, left = _top(score, share)
    floor = float(measured[sure].max(initial=0.0))
    return _expected_best(np.maximum(np.sort(measured[tied]), floor), left) / float(measured.max())


def kept(scores: ArrayLike, share: float = 0.1) -> Array:
    """Return each row's probability to be among the top `share` by score; ties at the limit share what is left."""
    score = np.asarray(scores, float)
    if len(score) == 0:
        return np.zeros(0)
    sure, tied, left = _top(score, share)
    return np.where(tied, left / tied.sum(), sure.astype(float))


def near_best(speedups: ArrayLike, margin: float = 0.05) -> NDArray[np.bool_]:
    """Return which rows come within `margin` of the best, S · (1 + margin) ≥ best; NaN and zero are invalid ones."""
    measured = np.nan_to_num(np.asarray(speedups, float), nan=0.0)
    return (measured > 0) & (measured * (1.0 + margin) >= measured.max(initial=0.0))


def false_discard_rate(scores: ArrayLike, wanted: ArrayLike, share: float = 0.1) -> float:
    """Share of the `wanted` rows, such as those of `near_best`, not in the top `share`; NaN if there are none."""
    good = np.asarray(wanted, bool)
    return _mean(1.0 - kept(scores, share)[good])


def miss_rate(scores: ArrayLike, wanted: ArrayLike, share: float = 0.1) -> float:
    """Probability that not one of the wanted rows is among the top `share` by score; NaN if none is wanted."""
    score, good = np.asarray(scores, float), np.asarray(wanted, bool)
    if not good.any():
        return math.nan
    sure, tied, left = _top(score, share)
    if good[sure].any():
        return 0.0
    size = int(tied.sum())
    return math.comb(size - int(good[tied].sum()), left) / math.comb(size, left)


def _top(score: Array, share: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_], int]:
    """Return which rows are surely in the top `share`, rounded up, which tie at its limit, and how many it takes."""
    count = max(1, math.ceil(share * len(score) - 1e-9))
    limit = np.sort(score)[-count]
    sure = score > limit
    return sure, score == limit, count - int(sure.sum())


def _expected_best(values: Array, taken: int) -> float:
    """Return the expected maximum of `taken` draws without replacement from ascending `values`."""
    size = len(values)
    ways = [math.comb(i, taken - 1) for i in range(size)]
    total = math.comb(size, taken)
    return sum(float(v) * (w / total) for v, w in zip(values, ways, strict=True))


def _rows(p: ArrayLike, y: ArrayLike) -> tuple[Array, NDArray[np.int64]]:
    forecast = np.asarray(p, float).reshape(-1, bins.COUNT)
    measured = np.asarray(y, dtype=np.int64).reshape(-1)
    if len(forecast) != len(measured):
        raise ValueError(f"{len(forecast)} forecasts, but {len(measured)} outcomes")
    return forecast, measured


def _one_hot(y: NDArray[np.int64]) -> Array:
    return np.eye(bins.COUNT)[y]


def _mean(values: Any) -> float:
    found = np.asarray(values, float)
    return float(found.mean()) if found.size else math.nan


def _ranks(values: Array) -> Array:
    """Return ranks from 1, ties sharing the mean of theirs."""
    from scipy.stats import rankdata  # slow to import

    return rankdata(values)


def _table(said: Array, came_true: Array, buckets: int) -> list[Bucket]:
    place = np.clip(np.ceil(said * buckets).astype(int) - 1, 0, buckets - 1)
    found: list[Bucket] = []
    for i in range(buckets):
        members = place == i
        if members.any():
            means = float(said[members].mean()), float(came_true[members].mean())
            found.append(Bucket(i / buckets, (i + 1) / buckets, int(members.sum()), *means))
    return found
