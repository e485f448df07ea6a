"""Weights of the pool of forecasters, learned from recorded answers: what `surrogate/cascade.json` holds."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from forewarp.core import bins
from forewarp.core.errors import UsageError
from forewarp.core.values import Forecast
from forewarp.surrogate.pooling import Array, Weights, floored, logit, moments, pooled, shares_of, sigmoid

Rows = NDArray[np.intp]
Loss = Literal["nll", "crps"]

STRENGTHS = (0.001, 0.01, 0.1, 1.0)
"""Shrinkage strengths that are tried, as a share of the default's loss."""

_FOLDS = 5


@dataclass(frozen=True, slots=True)
class PooledOutcome:
    """Forecasts of each tier for one candidate, and its measured outcome; None for what was not measured.

    Every outcome of a fit names the same tiers. `valid` is None where the tiers' `p_valid` was not recorded.
    """

    task: str
    forecasts: Mapping[str, Forecast]
    speedup: float | None
    valid: bool | None = None


@dataclass(frozen=True, slots=True)
class FittedWeights:
    """Fitted weights with what they rest on: rows, tasks, loss before and after, strength of the shrinkage."""

    weights: Weights
    numbers: Mapping[str, float]

    def save(self, path: Path) -> None:
        """Write the weights as JSON."""
        data = {"format": 1, **asdict(self.weights), "numbers": dict(self.numbers)}
        path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def fit_weights(
    outcomes: Sequence[PooledOutcome], default: Weights, *, loss: Loss = "nll", origin: str = ""
) -> FittedWeights:
    """Return the weights that minimise the loss of the pool on these outcomes, shrunk towards `default`.

    Each task counts the same. The strength of the shrinkage is the one that does best on tasks left out (five folds of
    tasks); "no fit at all" takes part, so that outcomes which teach nothing leave the default as it is. Weights of
    `p_valid` are fitted likewise on the outcomes that tell validity, if both valid and invalid ones are among them.
    Raises `UsageError` for fewer than two tasks with a measured speed-up, or where outcomes name different tiers.
    """
    labels = tuple(default.weights)
    if any(set(o.forecasts) != set(labels) for o in outcomes):
        raise UsageError(f"every outcome must hold a forecast of each of {', '.join(labels)}")
    timed = [o for o in outcomes if o.speedup is not None]
    if len({o.task for o in timed}) < 2:
        raise UsageError("weights need outcomes of at least two tasks", hint="record forecasts of more tasks")
    speed = _Speed(labels, timed, default, loss)
    chosen, strength, before, after = _fitted(speed, [o.task for o in timed], len(labels) - 1)
    found = replace(
        default,
        weights={label: round(float(w), 4) for label, w in zip(labels, speed.weights(chosen), strict=True)},
        valid=_fit_valid(labels, outcomes, default),
        origin=origin or f"fitted by {loss}",
    )
    numbers = {
        "rows": len(timed),
        "tasks": len({o.task for o in timed}),
        # JSON has no infinity: no strength stands for "no fit at all did best".
        **({"strength": strength} if math.isfinite(strength) else {}),
        "left_out_loss_default": round(before, 5),
        "left_out_loss": round(after, 5),
    }
    off = [moments(o.forecasts[labels[-1]])[0] - math.log2(o.speedup or 1.0) for o in timed]
    error = round(max(0.1, float(np.sqrt(np.mean(np.square(off))))), 4)
    return FittedWeights(replace(found, error_sd=error), numbers)


class _Speed:
    """The pool's loss on measured speed-ups; parameters are offsets from the default, in logs."""

    def __init__(self, labels: Sequence[str], outcomes: Sequence[PooledOutcome], default: Weights, loss: Loss) -> None:
        said = np.array([[o.forecasts[label].probabilities for label in labels] for o in outcomes])
        self._logs = np.log(floored(said))
        self._seen = np.eye(bins.COUNT)[[bins.bin_of(o.speedup or 1.0) for o in outcomes]]
        self._shares = np.array([default.weights[label] for label in labels])
        self._loss = loss

    def weights(self, offsets: Array) -> Array:
        return shares_of(list(np.exp(np.log(self._shares) + np.concatenate([[0.0], offsets]))))

    def losses(self, offsets: Array, rows: Rows) -> Array:
        p = pooled(self._logs[rows], self.weights(offsets))
        if self._loss == "nll":
            return -np.log((p * self._seen[rows]).sum(axis=1))
        steps = np.cumsum(p, axis=1) - np.cumsum(self._seen[rows], axis=1)
        return (steps[:, :-1] ** 2).sum(axis=1) / (bins.COUNT - 1)


class _Valid:
    """The pool's loss on validity."""

    def __init__(self, labels: Sequence[str], outcomes: Sequence[PooledOutcome], default: Weights) -> None:
        self._logits = np.array([[logit(o.forecasts[label].p_valid) for label in labels] for o in outcomes])
        self._seen = np.array([bool(o.valid) for o in outcomes])
        self._shares = np.array([default.valid.get(label, 1.0) for label in labels])

    def weights(self, offsets: Array) -> Array:
        return shares_of(list(np.exp(np.log(self._shares) + np.concatenate([[0.0], offsets]))))

    def losses(self, offsets: Array, rows: Rows) -> Array:
        p = sigmoid(self._logits[rows] @ self.weights(offsets))
        return -np.log(np.where(self._seen[rows], p, 1 - p))


def _fit_valid(labels: Sequence[str], outcomes: Sequence[PooledOutcome], default: Weights) -> Mapping[str, float]:
    told = [o for o in outcomes if o.valid is not None]
    tasks = [o.task for o in told]
    if len(labels) < 2 or len({o.valid for o in told}) < 2 or len(set(tasks)) < 2:
        return default.valid
    valid = _Valid(labels, told, default)
    chosen, *_ = _fitted(valid, tasks, len(labels) - 1)
    return {label: round(float(w), 4) for label, w in zip(labels, valid.weights(chosen), strict=True)}


def _fitted(model: _Speed | _Valid, tasks: Sequence[str], size: int) -> tuple[Array, float, float, float]:
    """Return the offsets, the chosen strength, and the left-out losses of the default and of that strength."""
    numbers = {task: i for i, task in enumerate(dict.fromkeys(tasks))}
    number = np.array([numbers[task] for task in tasks])
    folds = number % min(_FOLDS, len(numbers))
    nothing = np.zeros(size)
    everything = np.arange(len(tasks))
    best = (_by_task(model.losses(nothing, everything), number), math.inf)
    before = best[0]
    for strength in STRENGTHS:
        losses = np.empty(len(tasks))
        for fold in range(int(folds.max()) + 1):
            out = np.flatnonzero(folds == fold)
            offsets = _minimum(model, np.flatnonzero(folds != fold), number, strength * before, size)
            losses[out] = model.losses(offsets, out)
        best = min(best, (_by_task(losses, number), strength))
    after, strength = best
    if math.isinf(strength):
        return nothing, strength, before, after
    return _minimum(model, everything, number, strength * before, size), strength, before, after


def _minimum(model: _Speed | _Valid, rows: Rows, number: Rows, strength: float, size: int) -> Array:
    from scipy.optimize import minimize  # scipy takes long to import

    def total(offsets: Array) -> float:
        return _by_task(model.losses(offsets, rows), number[rows]) + strength * float(offsets @ offsets)

    found: Any = minimize(total, np.zeros(size), method="L-BFGS-B", bounds=[(-3.0, 3.0)] * size)
    return np.asarray(found.x, dtype=float)


def _by_task(losses: Array, number: Rows) -> float:
    """Return the mean over tasks of each task's mean."""
    counts = np.bincount(number)
    return float((np.bincount(number, losses)[counts > 0] / counts[counts > 0]).mean())
