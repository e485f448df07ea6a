"""Comparison of forecasts: differences, chances of being faster or the best, and a ranking consistent with them.

Everything works on a fine grid over log2 S. Within a bin the mass follows the forecast's normal where it gives mean and
spread, and is even otherwise; the mass of each bin is the forecast's own. Different candidates' speed-ups are taken as
independent, but for the error that forecasts say they share (`shared_sd_log2`), which cancels. Other errors that they
share cancel in reality too, so that differences are a little surer than said here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from forewarp.core import bins
from forewarp.core.values import Cost, Forecast

Array = NDArray[np.float64]

CELL = 1 / 32
"""Width of a cell of the grid, in octaves."""

_REACH = 8.0
_EDGES = np.linspace(-_REACH, _REACH, round(2 * _REACH / CELL) + 1)
_CENTRES = (_EDGES[1:] + _EDGES[:-1]) / 2
_BIN = np.searchsorted(np.array(bins.LOG2_BOUNDS[1:-1]), _CENTRES)
_EVEN = ((bins.LOG2_BOUNDS[0] < _CENTRES) & (bins.LOG2_BOUNDS[-1] > _CENTRES)).astype(float)
_NOTHING = 1e-9
_OWN_LEAST = 0.2


def density(forecast: Forecast) -> Array:
    """Return the mass of each cell of the grid over log2 S, −8 to 8 octaves, given that the candidate is valid."""
    even = np.bincount(_BIN, _EVEN, bins.COUNT)
    share = _EVEN / even[_BIN]
    if forecast.mean_log2 is not None and forecast.sd_log2 is not None:
        normal = _normal(forecast.mean_log2, forecast.sd_log2)
        mass = np.bincount(_BIN, normal, bins.COUNT)
        known = mass[_BIN] > _NOTHING
        share = np.where(known, normal / np.where(known, mass[_BIN], 1.0), share)
    return np.asarray(forecast.probabilities)[_BIN] * share


def chance_above(forecast: Forecast, threshold: float) -> float:
    """Return P(S > threshold), given that the candidate is valid; the threshold is positive."""
    above = (_EDGES[1:] - math.log2(threshold)) / CELL
    return float(density(forecast) @ np.clip(above, 0.0, 1.0))


def gains(forecast: Forecast, incumbent: float, shifts: Array) -> Array:
    """Return E[max(0, log2 S + shift − log2 incumbent)] in octaves for each shift, if the candidate is valid."""
    ahead = _CENTRES + shifts[:, None] - math.log2(incumbent)
    return np.maximum(0.0, ahead) @ density(forecast)


def chance_faster(a: Forecast, b: Forecast) -> float:
    """Return P(a is faster than b), given that both are valid; equal cells count one half, so both ways sum to one."""
    first, second = map(density, _apart([a, b]))
    return float(first @ (np.cumsum(second) - second / 2))


def quotient(a: Forecast, b: Forecast) -> Forecast:
    """Return the forecast of a's speed-up over b, given that b is valid, at the cost of both."""
    first, second = map(density, _apart([a, b]))
    mass = np.convolve(first, second[::-1])
    steps = (np.arange(len(mass)) - (len(second) - 1)) * CELL
    # A difference of two cells is spread over two cells: half of it lies on either side of its centre.
    inner = np.searchsorted(np.array(bins.LOG2_BOUNDS[1:-1]), np.stack([steps - CELL / 2, steps + CELL / 2]))
    probabilities = bins.normalise(list(np.bincount(inner.ravel(), np.tile(mass / 2, 2), bins.COUNT)))
    mean = float(mass @ steps)
    sd = math.sqrt(max(0.0, float(mass @ (steps - mean) ** 2)))
    return Forecast(
        probabilities,
        a.p_valid,
        a.forecaster,
        a.rationale,
        a.raw_sum,
        a.cost + (b.cost if b is not a else Cost()),
        mean_log2=mean,
        sd_log2=max(sd, 1e-6),
        tiers=a.tiers,
    )


def value(forecast: Forecast) -> float:
    """Return p_valid · 2^E[log2 S], which orders normals of equal validity as `chance_faster` does."""
    return forecast.p_valid * 2.0 ** float(density(forecast) @ _CENTRES)


def chances_best(forecasts: Sequence[Forecast]) -> list[float]:
    """Return for each forecast the probability that it is valid and the fastest of the valid ones."""
    if not forecasts:
        return []
    valid = np.array([f.p_valid for f in forecasts])[:, None]
    mass = np.stack([density(f) for f in _apart(forecasts)])
    beaten = np.maximum(1 - valid + valid * (np.cumsum(mass, axis=1) - mass / 2), 1e-300)
    logs = np.log(beaten)
    raw = (valid * mass * np.exp(logs.sum(axis=0) - logs)).sum(axis=1)
    some = 1.0 - float(np.prod(1 - valid))
    total = float(raw.sum())
    return [float(r) * some / total if total > 0 else 0.0 for r in raw]


def ranking(forecasts: Sequence[Forecast]) -> list[int]:
    """Return the places of the forecasts, the most valuable first; ties go to the earlier one."""
    values = [value(f) for f in forecasts]
    return sorted(range(len(values)), key=lambda i: (-values[i], i))


def _apart(forecasts: Sequence[Forecast]) -> list[Forecast]:
    """Return the forecasts without the error that all of them share, as normals; as they are where they share none."""
    shared = min(f.shared_sd_log2 for f in forecasts)
    if shared <= 0:
        return list(forecasts)
    own: list[Forecast] = []
    for f in forecasts:
        mean, sd = f.mean_log2, f.sd_log2
        if mean is None or sd is None:
            return list(forecasts)
        left = math.sqrt(max(sd * sd - shared * shared, (_OWN_LEAST * sd) ** 2))
        own.append(replace(f, probabilities=bins.from_normal(mean, left), sd_log2=left))
    return own


def _normal(mean: float, sd: float) -> Array:
    """Return the mass of each cell under a normal; the outermost cells hold the tails."""
    from scipy.special import ndtr  # scipy takes long to import

    cdf = np.asarray(ndtr((_EDGES - mean) / max(sd, 1e-6)), dtype=float)
    cdf[0], cdf[-1] = 0.0, 1.0
    return np.diff(cdf)
