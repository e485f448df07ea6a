"""Several forecasts of one candidate combined into one, by weights that are learned from outcomes.

The distributions meet in a log-opinion pool, p ∝ (Π p_k^w_k)^γ with Σ w_k = 1 (Genest and Zidek 1986). γ > 1 sharpens:
tiers that see different things know more together than their geometric mean says. A pool of one tier is that tier.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from forewarp.core import bins
from forewarp.core.errors import UsageError
from forewarp.core.values import Cost, Forecast

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
Loss = Literal["nll", "crps"]

FLOOR = 0.01
"""Share of each distribution that is spread evenly before pooling, so that no tier can rule a bin out alone."""

STRENGTHS = (0.001, 0.01, 0.1, 1.0)
"""Shrinkage strengths that are tried, as a share of the default's loss."""

_VALID_LIMIT = 1e-3
_FOLDS = 5
_SD_FLOOR = 0.02
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights by which tiers are pooled.

    Attributes:
        weights: Weight of each tier by its label; only their ratios count.
        sharpness: The exponent γ.
        valid: Weights of the tiers' `p_valid` in logit space.
        shift_sd: By how many octaves the last tier moves the mean of log2 S, root mean square.
        origin: Where the numbers come from, in words.
        numbers: What they rest on: rows, tasks, loss before and after, strength of the shrinkage.
    """

    weights: Mapping[str, float]
    sharpness: float = 1.0
    valid: Mapping[str, float] = field(default_factory=dict[str, float])
    shift_sd: float = 0.5
    origin: str = "default: chosen by hand, not fitted"
    numbers: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class PooledOutcome:
    """Forecasts of each tier for one candidate, and its measured outcome; None for what was not measured.

    Every outcome of a fit names the same tiers. `valid` is None where the tiers' `p_valid` was not recorded.
    """

    task: str
    forecasts: Mapping[str, Forecast]
    speedup: float | None
    valid: bool | None = None


def pool(said: Sequence[tuple[str, Forecast]], weights: Weights, name: str, rationale: str = "") -> Forecast:
    """Return the tiers' forecasts, by label in the order asked, as one forecast called `name`.

    Costs add up. Mean and spread of log2 S are those of the product of the tiers' normals; a tier that gives none has
    them derived from its bins. Where no tier gives any, the pool gives none either. An answer that could not be read
    (`raw_sum` 0), or of a forecaster that knew nothing of the candidate (not `informed`), is kept and paid for, but
    has no say as long as there is another.
    """
    if not said:
        raise ValueError("there is no forecast to combine")
    everything = tuple(forecast for _, forecast in said)
    cost = sum((f.cost for f in everything), Cost())
    read = [(label, f) for label, f in said if f.raw_sum > 0] or said[:1]
    said = [(label, f) for label, f in read if f.informed] or read[:1]
    answers = tuple(forecast for _, forecast in said)
    if len(said) == 1:
        return replace(answers[0], forecaster=name, rationale=rationale, cost=cost, tiers=everything)
    shares = _shares([weights.weights.get(label, 1.0) for label, _ in said]) * weights.sharpness
    logs = np.log(_floored(np.array([f.probabilities for f in answers])))
    mean, sd, shared = _normal(answers, shares)
    trust = _shares([weights.valid.get(label, 1.0) for label, _ in said])
    return Forecast(
        bins.normalise(list(_pooled(logs, shares))),
        float(_sigmoid(trust @ np.array([_logit(f.p_valid) for f in answers]))),
        name,
        rationale,
        answers[-1].raw_sum,
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


@lru_cache(maxsize=1)
def shipped() -> Weights:
    """Return the weights that come with forewarp."""
    return read_weights(Path(__file__).with_name("cascade.json"))


def read_weights(path: Path) -> Weights:
    """Read weights from JSON; raises `UsageError`."""
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if data.pop("format") != _FORMAT:
            raise UsageError(f"{path} holds weights of another version", hint="fit them again")
        found = Weights(**data)
    except (OSError, ValueError, TypeError, KeyError) as e:
        raise UsageError(f"the weights {path} cannot be read: {e}", hint="pass a file of fitted weights") from None
    if any(not w > 0 for w in (*found.weights.values(), *found.valid.values(), found.sharpness)):
        raise UsageError(f"the weights {path} are not all positive", hint="fit them again")
    return found


def write_weights(weights: Weights, path: Path) -> None:
    """Write weights as JSON."""
    path.write_text(json.dumps({"format": _FORMAT, **asdict(weights)}, indent=2) + "\n", encoding="utf-8")


def fit_weights(
    outcomes: Sequence[PooledOutcome], default: Weights, *, loss: Loss = "nll", origin: str = ""
) -> Weights:
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
    chosen, strength, before, after = _fitted(speed, [o.task for o in timed], len(labels))
    shares, sharpness = speed.weights(chosen)
    found = replace(
        default,
        weights={label: round(float(w), 4) for label, w in zip(labels, shares, strict=True)},
        sharpness=round(sharpness, 4),
        valid=_fit_valid(labels, outcomes, default),
        origin=origin or f"fitted by {loss}",
        numbers={
            "rows": len(timed),
            "tasks": len({o.task for o in timed}),
            # JSON has no infinity: no strength stands for "no fit at all did best".
            **({"strength": strength} if math.isfinite(strength) else {}),
            "left_out_loss_default": round(before, 5),
            "left_out_loss": round(after, 5),
        },
    )
    first = [(o, o.forecasts[labels[0]]) for o in timed]
    moved = [
        moments(pool([(k, o.forecasts[k]) for k in labels], found, "pool"))[0] - moments(alone)[0] for o, alone in first
    ]
    return replace(found, shift_sd=round(max(0.1, float(np.sqrt(np.mean(np.square(moved))))), 4))


class _Speed:
    """The pool's loss on measured speed-ups; parameters are offsets from the default, in logs."""

    def __init__(self, labels: Sequence[str], outcomes: Sequence[PooledOutcome], default: Weights, loss: Loss) -> None:
        said = np.array([[o.forecasts[label].probabilities for label in labels] for o in outcomes])
        self._logs = np.log(_floored(said))
        self._seen = np.eye(bins.COUNT)[[bins.bin_of(o.speedup or 1.0) for o in outcomes]]
        self._shares = np.array([default.weights[label] for label in labels])
        self._sharpness, self._loss = default.sharpness, loss

    def weights(self, offsets: Array) -> tuple[Array, float]:
        logs = np.log(self._shares) + np.concatenate([[0.0], offsets[:-1]])
        return _shares(list(np.exp(logs))), self._sharpness * math.exp(float(offsets[-1]))

    def losses(self, offsets: Array, rows: Rows) -> Array:
        shares, sharpness = self.weights(offsets)
        p = _pooled(self._logs[rows], shares * sharpness)
        if self._loss == "nll":
            return -np.log((p * self._seen[rows]).sum(axis=1))
        steps = np.cumsum(p, axis=1) - np.cumsum(self._seen[rows], axis=1)
        return (steps[:, :-1] ** 2).sum(axis=1) / (bins.COUNT - 1)


class _Valid:
    """The pool's loss on validity."""

    def __init__(self, labels: Sequence[str], outcomes: Sequence[PooledOutcome], default: Weights) -> None:
        self._logits = np.array([[_logit(o.forecasts[label].p_valid) for label in labels] for o in outcomes])
        self._seen = np.array([bool(o.valid) for o in outcomes])
        self._shares = np.array([default.valid.get(label, 1.0) for label in labels])

    def weights(self, offsets: Array) -> Array:
        return _shares(list(np.exp(np.log(self._shares) + np.concatenate([[0.0], offsets]))))

    def losses(self, offsets: Array, rows: Rows) -> Array:
        p = _sigmoid(self._logits[rows] @ self.weights(offsets))
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


def _pooled(logs: Array, exponents: Array) -> Array:
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


def _floored(p: Array) -> Array:
    return (1 - FLOOR) * p + FLOOR / bins.COUNT


def _shares(weights: Sequence[float]) -> Array:
    found = np.asarray(weights, dtype=float)
    return found / found.sum()


def _logit(p: float) -> float:
    held = min(1 - _VALID_LIMIT, max(_VALID_LIMIT, p))
    return math.log(held / (1 - held))


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))
