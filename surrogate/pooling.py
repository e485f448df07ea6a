"""Several forecasts of one candidate combined into one, by weights that were learned from outcomes.

The distributions meet in a log-opinion pool, p ∝ Π p_k^w_k with Σ w_k = 1 (Genest and Zidek 1986), so that a pool is no
surer than the surest of its tiers. A pool of one tier is that tier.
`benchmarks/pool_weights.py` fits the weights that ship with forewarp.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarp.core import bins, serde
from forewarp.core.values import Cost, Forecast

Array = NDArray[np.float64]

SHIPPED = Path(__file__).with_name("cascade.json")
FLOOR = 0.01
"""Share of each distribution that is spread evenly before pooling, so that no tier can rule a bin out alone."""

_VALID_LIMIT = 1e-3
_SD_FLOOR = 0.02


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights by which tiers are pooled, by label: only ratios count, those of `valid` in logit space.

    The last tier's mean of log2 S is off by `error_sd` octaves, root mean square.
    """

    weights: Mapping[str, float]
    valid: Mapping[str, float] = field(default_factory=dict[str, float])
    error_sd: float = 0.5
    origin: str = "default: chosen by hand, not fitted"


@lru_cache(maxsize=1)
def shipped() -> Weights:
    return serde.from_data(Weights, json.loads(SHIPPED.read_text(encoding="utf-8")))


def pool(answers: Sequence[tuple[str, Forecast]], weights: Weights, name: str, rationale: str = "") -> Forecast:
    """Return the tiers' forecasts, by label in the order asked, as one forecast called `name`; costs add up.

    Mean and spread are those of the product of the tiers' normals, or of bins where a tier gives none. An answer that
    could not be read (`raw_sum` 0), or is not `informed`, has no say as long as there is another.
    """
    if not answers:
        raise ValueError("there is no forecast to combine")
    everything = tuple(forecast for _, forecast in answers)
    cost = sum((f.cost for f in everything), Cost())
    readable = [(label, f) for label, f in answers if f.raw_sum > 0] or answers[:1]
    heard = [(label, f) for label, f in readable if f.informed] or readable[:1]
    forecasts = tuple(forecast for _, forecast in heard)
    if len(forecasts) == 1:
        return replace(forecasts[0], forecaster=name, rationale=rationale, cost=cost, tiers=everything)
    shares = shares_of([weights.weights.get(label, 1.0) for label, _ in heard])
    logs = np.log(floored(np.array([f.probabilities for f in forecasts])))
    mean, sd, shared = _normal(forecasts, shares)
    trust = shares_of([weights.valid.get(label, 1.0) for label, _ in heard])
    return Forecast(
        bins.normalise(list(pooled(logs, shares))),
        float(sigmoid(trust @ np.array([logit(f.p_valid) for f in forecasts]))),
        name,
        rationale,
        forecasts[-1].raw_sum,
        cost,
        mean_log2=mean,
        sd_log2=sd,
        tiers=everything,
        shared_sd_log2=shared,
    )


def moments(forecast: Forecast) -> tuple[float, float]:
    """Return mean and standard deviation of log2 S: the forecast's own, else those of its bins."""
    if forecast.mean_log2 is not None and forecast.sd_log2 is not None:
        return forecast.mean_log2, forecast.sd_log2
    return bins.mean_log2(forecast.probabilities), bins.spread_log2(forecast.probabilities)


def pooled(logs: Array, exponents: Array) -> Array:
    """Return (…, 8) pooled probabilities from (…, tiers, 8) logs and one exponent a tier."""
    raw = np.tensordot(logs, exponents, axes=([-2], [0]))
    raw -= raw.max(axis=-1, keepdims=True)
    p = np.exp(raw)
    return p / p.sum(axis=-1, keepdims=True)


def _normal(answers: Sequence[Forecast], exponents: Array) -> tuple[float | None, float | None, float]:
    """Return mean, spread and shared spread of log2 S."""
    if all(f.mean_log2 is None or f.sd_log2 is None for f in answers):
        return None, None, 0.0
    found = np.array([moments(f) for f in answers])
    precision = exponents / np.maximum(found[:, 1], _SD_FLOOR) ** 2
    shares = precision / precision.sum()
    shared = shares * np.array([f.shared_sd_log2 for f in answers])
    return float(shares @ found[:, 0]), float(precision.sum() ** -0.5), float(np.sqrt(shared @ shared))


def floored(p: Array) -> Array:
    """Return distributions of which a share of `FLOOR` is spread evenly."""
    return (1 - FLOOR) * p + FLOOR / bins.COUNT


def shares_of(weights: Sequence[float]) -> Array:
    """Return weights scaled to sum to one."""
    shares = np.asarray(weights, dtype=float)
    return shares / shares.sum()


def logit(p: float) -> float:
    """Return the log odds of a probability, which is held off 0 and 1."""
    held = min(1 - _VALID_LIMIT, max(_VALID_LIMIT, p))
    return math.log(held / (1 - held))


def sigmoid(x: Any) -> Any:
    """Return the probability of log odds."""
    return 1 / (1 + np.exp(-x))
