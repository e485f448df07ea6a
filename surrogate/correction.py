"""The correction of a forecast by five parameters; `calibration` finds them.

A forecast's cumulative probability F at each bin edge becomes

    z = Φ⁻¹(F) / s,   s = exp(spread) · (sd / 0.3)^tilt,   F′ = (1 − tails)·Φ(z) + tails·Φ(z / 4)

with sd the forecast's own spread in octaves: one factor for all spreads, one for forecasts that are sharper or wider
than usual, and a wide component for surprises. It is a recalibration of the probability integral transform (Kuleshov,
Fenner, Ermon 2018) with R(½) = ½, so that medians, and with them the order of candidates, stay exactly as they are.
`p_valid` goes through a rising line on the logit scale (Platt 1999).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from forewarp.core import bins
from forewarp.core.values import Z80, Forecast

Array = NDArray[np.float64]

_USUAL_SD = 0.3
_WIDE = 4.0
_FAR = 37.0
_RESOLVED = 1e-4


def normal_scores(forecast: Forecast) -> Array:
    """Return Φ⁻¹(F) at the seven inner edges.

    Where F is too near 0 or 1 to tell how far an edge is, the distance from the median in standard deviations is taken:
    mass that a wider forecast sends over an edge must land beside it, not in the outermost bin.
    """
    from scipy.special import ndtri  # slow to import, and not needed by whoever only reads a calibration

    cdf = np.cumsum(np.array(forecast.probabilities))[:-1]
    edges = (np.array(bins.LOG2_BOUNDS[1:-1]) - math.log2(forecast.median)) / spread_of(forecast)
    limit = -float(ndtri(_RESOLVED))
    scores = ndtri(np.clip(cdf, _RESOLVED, 1 - _RESOLVED))
    below, above = np.flatnonzero(cdf < _RESOLVED), np.flatnonzero(cdf > 1 - _RESOLVED)
    if below.size:
        scores[below] = edges[below] + min(0.0, -limit - edges[below[-1]])
    if above.size:
        scores[above] = edges[above] + max(0.0, limit - edges[above[0]])
    return np.clip(scores, -_FAR, _FAR)


def spread_of(forecast: Forecast) -> float:
    """Return the standard deviation in octaves that the forecast's 80 % interval stands for."""
    low, high = forecast.interval
    return max(0.01, (math.log2(high) - math.log2(low)) / (2 * Z80))


def scale(sd: Array, spread: float, tilt: float) -> Array:
    """Return the factors s by which forecasts of these spreads are widened."""
    return np.exp(spread + tilt * np.log(sd / _USUAL_SD))


def corrected(scores: Array, sd: Array, parameters: Sequence[float]) -> Array:
    """Return bin probabilities, a row of eight for each row of seven normal scores."""
    from scipy.special import ndtr

    spread, tilt, tails = parameters
    z = scores / scale(sd, spread, tilt)[:, None]
    inner = (1 - tails) * ndtr(z) + tails * ndtr(z / _WIDE)
    ends = np.zeros((len(inner), 1))
    return np.diff(np.concatenate([ends, inner, ends + 1.0], axis=1), axis=1)


def half_width(tails: float) -> float:
    """Return the half-width of the central 80 % of the standard mixture, by bisection."""
    low, high = Z80, Z80 * _WIDE
    for _ in range(40):
        middle = (low + high) / 2
        inside = (1 - tails) * math.erf(middle / math.sqrt(2)) + tails * math.erf(middle / _WIDE / math.sqrt(2))
        low, high = (middle, high) if inside < 0.8 else (low, middle)
    return low


def line(p: float, shift: float, slope: float) -> float:
    """Return a probability that went through a rising line on the logit scale; certainty stays. `slope` is a log."""
    if not 0 < p < 1:
        return p
    return 1 / (1 + math.exp(-(shift + math.exp(slope) * math.log(p / (1 - p)))))
