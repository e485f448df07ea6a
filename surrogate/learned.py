"""The embedded learned forecaster: trees fitted to a pool, and the run's own trials; no key, no network, no GPU."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from forewarp.core import bins
from forewarp.core.protocols import Subject, Trial
from forewarp.core.values import Z80, Cost, Forecast, Measurement, Target, Task
from forewarp.inspection.features.features import Columns, features, has_features, program_of
from forewarp.surrogate import pretrained
from forewarp.surrogate.pretrained import BROAD, Variances
from forewarp.surrogate.reference import ReferenceTime

Array = NDArray[np.float64]

PRIOR_VALID = 0.8
"""Share of candidates that are valid, before any was measured, given that they compiled."""

_Group = Literal["trees", "modules", "kernels"]
"""Subjects that are forecast together: those that the trees cover, and of the rest modules and kernels."""

_MIN_LEARN = 3
_FOLDS, _QUICK_FOLDS = 5, 3
_VALID_STRENGTH = 2.0
_OTHER_PROGRAM = 0.3
_PROGRAM_STRENGTH = 0.05
"""Weight of the prior chance that a candidate is right, in trials of its own program.

In the pool's training split all settings of a program were right, or none: 331 programs and 53.
"""
_SCALE_STRENGTH = 6.0
_MIN_FREEDOM = 3.0
_SCALE_RANGE = (0.6, 3.0)
_NOISE_FLOOR = 0.005
_UNKNOWN_NOISE = 0.05
_SURE = 1e-4


@dataclass(frozen=True, slots=True)
class _Prior:
    """Prior of trials and subjects: mean and relative spread of log2 S, P(valid); `origin` says where it comes from."""

    mean: Array
    spread: Array
    valid: Array
    variances: Variances
    freedom: float
    origin: str

    @property
    def sd(self) -> Array:
        """Spread of each row's log2 S."""
        v = self.variances
        return np.sqrt(v.level + (v.program + v.choice) * self.spread**2)


@dataclass(frozen=True, slots=True)
class _Residuals:
    """Trials as the Gaussian process takes them: rows, log2 S less the prior mean, and its noise variance."""

    rows: Array
    y: Array
    noise: Array

    def chosen(self, rows: NDArray[np.bool_]) -> _Residuals:
        return _Residuals(self.rows[rows], self.y[rows], self.noise[rows])


class LearnedForecaster:
    """Trees over facts and text give a prior; a Gaussian process on the run's trials corrects it.

    The trees forecast log2 of the time over the roofline floor of a GPU's compiled kernels. For other subjects, and if
    `alone`, the prior is normal about "no change" with 1.5 octaves; of these, only trials of modules tell of modules,
    and kernels' of kernels. Spreads are rescaled by cross-validated residuals, tails are Student-t. The same history
    gives the same forecasts. `references` are times by the task's sha256, where trials do not tell them.
    """

    name = "learned"

    def __init__(
        self,
        model: pretrained.Model | None = None,
        *,
        alone: bool = False,
        references: Mapping[str, ReferenceTime] | None = None,
    ) -> None:
        self._model, self._alone, self._references = model, alone, dict(references or {})

    def forecast(
        self, task: Task, target: Target, subjects: Sequence[Subject], history: Sequence[Trial]
    ) -> list[Forecast]:
        if not subjects:
            return []
        start = time.perf_counter()
        groups: dict[_Group, list[int]] = {}
        for i, subject in enumerate(subjects):
            groups.setdefault(self._group(target, subject), []).append(i)
        forecasts: dict[int, Forecast] = {}
        for group, places in groups.items():
            used = [t for t in history if _tells(target, t.subject, group)]
            made = self._made(task, target, [subjects[i] for i in places], used, covered=group == "trees")
            # Without trees and trials it knows its prior alone, and has no say beside a forecaster that read the code.
            knows = group == "trees" or any(t.measurement.believed for t in used)
            told = (replace(f, informed=knows and has_features(subjects[i])) for i, f in zip(places, made, strict=True))
            forecasts |= dict(zip(places, told, strict=True))
        cost = Cost(seconds=(time.perf_counter() - start) / len(subjects))
        return [replace(forecasts[i], cost=cost) for i in range(len(subjects))]

    def _made(
        self, task: Task, target: Target, subjects: Sequence[Subject], history: Sequence[Trial], *, covered: bool
    ) -> list[Forecast]:
        everyone = [*(t.subject for t in history), *subjects]
        prior = self._expected(task, target, everyone, history) if covered else _broad(len(everyone))
        rows = [features(task, target, s) for s in everyone]
        table = Columns.over(rows).matrix(rows)
        if table.shape[1] == 0:  # nothing tells the subjects apart, but the process wants a column
            table = np.zeros((len(rows), 1))
        table = np.column_stack([table, _numbers([program_of(s.candidate) for s in everyone])])
        mean, sd, freedom, note = _speedups(table, prior, history)
        known, asked = table[: len(history)], table[len(history) :]
        # Trials pin the common level down; without any, candidates are wrong about it together.
        shared = 0.0 if any(t.measurement.believed for t in history) else math.sqrt(prior.variances.level)
        valid = _p_valid(known, asked, [t.measurement for t in history], prior.valid)
        return [
            Forecast(
                _student(m, s, freedom),
                float(p),
                self.name,
                note,
                mean_log2=float(m),
                sd_log2=float(s) * _half_width(freedom) / Z80,
                shared_sd_log2=shared * _half_width(freedom) / Z80,
            )
            for m, s, p in zip(mean, sd, valid, strict=True)
        ]

    def _group(self, target: Target, subject: Subject) -> _Group:
        if not self._alone and pretrained.covered(target, subject):
            return "trees"
        return "modules" if _is_module(subject) else "kernels"

    def _expected(self, task: Task, target: Target, everyone: Sequence[Subject], history: Sequence[Trial]) -> _Prior:
        model = self._model or pretrained.shipped()
        expected = model.expect(target, everyone)
        floors = np.array([s.build.evidence.facts["floor_s"] for s in everyone])
        measured, known = _anchor_s(history), self._references.get(task.sha256)
        reference = ReferenceTime({"": measured}) if measured else known
        anchor, level, note = _anchor(reference, floors, model)
        origin = f"{model.info.get('kernels', '?')} measured kernels of {model.info.get('tasks', '?')} other tasks"
        return _Prior(
            anchor - expected.time,
            expected.spread,
            expected.valid,
            Variances(level, model.spread.program, model.spread.choice),
            model.spread.freedom,
            origin + note,
        )


def _anchor(known: ReferenceTime | None, floors: Array, model: pretrained.Model) -> tuple[Array, float, str]:
    """Return log2 of the anchor's time over each floor, its variance, and a note: two estimates by precision."""
    usual = np.full(len(floors), model.anchor)
    if known is None:
        return usual, model.spread.blind, ", the reference's time guessed"
    told = np.log2(known.mean_s / floors)
    apart, variance = max(model.spread.blind - model.spread.level, _SURE), known.sd_log2**2
    share = apart / (apart + variance)
    note = ", the reference's time forecast" if variance else ""
    return share * told + (1 - share) * usual, model.spread.level + share * variance, note


def _tells(target: Target, subject: Subject, group: _Group) -> bool:
    """Return whether a measured subject tells something of those in a group."""
    if group == "trees":
        return pretrained.covered(target, subject)
    return _is_module(subject) == (group == "modules")


def _is_module(subject: Subject) -> bool:
    """Return whether a subject is a module: what it calls may be a library's, of which kernels' trials say nothing."""
    return subject.candidate.language == "python"


def _broad(count: int) -> _Prior:
    one = np.ones(count)
    return _Prior(np.zeros(count), one, one * PRIOR_VALID, BROAD, math.inf, "")


def _anchor_s(history: Sequence[Trial]) -> float | None:
    """Return the anchor's time that the trials have measured, None where none has."""
    logs = [math.log(seconds) for t in history if (seconds := t.measurement.anchor_s)]
    return math.exp(float(np.median(logs))) if logs else None


def noise_variance(measurement: Measurement) -> float:
    """Return the variance of the measured log2 speed-up, read off its 95 % interval."""
    low, high = measurement.low, measurement.high
    if low is None or high is None or not 0 < low <= high:
        return _UNKNOWN_NOISE**2
    return max(_NOISE_FLOOR, (math.log2(high) - math.log2(low)) / (2 * 1.96)) ** 2


def _numbers(keys: Sequence[str]) -> Array:
    order = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    return np.array([float(order[key]) for key in keys])


def _speedups(table: Array, prior: _Prior, history: Sequence[Trial]) -> tuple[Array, Array, float, str]:
    """Return mean, spread and degrees of freedom of log2 S for the asked rows, and a note on their origin."""
    count = len(history)
    asked = table[count:]
    used = [i for i, t in enumerate(history) if t.measurement.believed]
    trees = f"trees fitted to {prior.origin}" if prior.origin else ""
    if not used:
        note = "nothing of this kind was measured for this task yet"
        return prior.mean[count:], prior.sd[count:], prior.freedom, f"{trees}; {note}" if trees else f"prior: {note}"
    from forewarp.surrogate import gp  # scipy takes a while to import

    y = np.array([math.log2(history[i].measurement.speedup or 1.0) for i in used]) - prior.mean[used]
    own = _Residuals(table[:count][used], y, np.array([noise_variance(history[i].measurement) for i in used]))
    learn = len(used) >= _MIN_LEARN
    variances, quick = prior.variances, bool(prior.origin)
    posterior = gp.fit(own.rows, own.y, own.noise, learn=learn, prior=variances, quick=quick)
    mean, sd = posterior.predict(asked)
    scale = _scale(_residuals(own, variances, quick=quick)) if learn else 1.0
    # The less the trials say of a subject, the more its spread is the one that the trees expect.
    doubt = np.clip(sd**2 / (variances.level + variances.program + variances.choice), _SURE, 1.0)
    sd = sd * scale * prior.spread[count:] ** doubt
    freedom = max(_MIN_FREEDOM, float(len(used)))
    note = _note(own, scale)
    return mean + prior.mean[count:], sd, freedom, f"{trees}, corrected by a {note}" if trees else note


def _note(own: _Residuals, scale: float) -> str:
    trials, programs = len(own.y), len(set(own.rows[:, -1]))
    counts = f"{trials} timed trial{'s' * (trials != 1)} of {programs} program{'s' * (programs != 1)}"
    return f"Gaussian process on {counts}, spread × {scale:.2f}"


def _residuals(own: _Residuals, prior: Variances, *, quick: bool) -> Array:
    """Return each trial's standardised residual, predicted by a fit and hyperparameters that have not seen it."""
    from forewarp.surrogate import gp

    folds = np.arange(len(own.y)) % min(_QUICK_FOLDS if quick else _FOLDS, len(own.y))
    residuals = np.empty(len(own.y))
    for fold in range(int(folds.max()) + 1):
        out = folds == fold
        seen = own.chosen(~out)
        mean, sd = gp.fit(seen.rows, seen.y, seen.noise, learn=True, prior=prior, quick=quick).predict(own.rows[out])
        residuals[out] = (own.y[out] - mean) / np.sqrt(sd**2 + own.noise[out])
    return residuals


def _scale(residuals: Array) -> float:
    """Return the factor that brings residuals to unit variance, shrunk towards one."""
    clipped = np.clip(residuals, -4.0, 4.0)
    variance = (_SCALE_STRENGTH + float(clipped @ clipped)) / (_SCALE_STRENGTH + len(clipped))
    return float(np.clip(math.sqrt(variance), *_SCALE_RANGE))


def _student(mean: float, sd: float, freedom: float) -> tuple[float, ...]:
    """Return the bin probabilities of a Student-t over log2 S, of a normal if `freedom` is infinite."""
    if math.isinf(freedom):
        return bins.from_normal(mean, sd)
    from scipy.special import stdtr

    edges = (np.array(bins.LOG2_BOUNDS[1:-1]) - mean) / max(sd, 1e-6)
    cdf = np.concatenate([[0.0], stdtr(freedom, edges), [1.0]])
    return bins.normalise([float(p) for p in np.diff(cdf)])


def _half_width(freedom: float) -> float:
    """Return the half-width of the central 80 % interval of a standard Student-t."""
    if math.isinf(freedom):
        return Z80
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.9))


def _p_valid(known: Array, asked: Array, trials: Sequence[Measurement], prior: Array) -> Array:
    """Return how likely each asked subject is to run and to be right, from the `prior` of trials and subjects.

    Its own is moved, in log odds, by the run's share of valid trials. Whether outputs are right is told by trials of
    its program, the nearest most; whether it runs, by nearness in tunables, less of other programs.
    """
    valid = np.array([t.trusted for t in trials], dtype=float)
    judged = np.array([t.judged for t in trials], dtype=float)
    usual = float(prior[: len(trials)].mean()) if trials else PRIOR_VALID
    overall = (_VALID_STRENGTH * usual + valid.sum()) / (_VALID_STRENGTH + len(trials))
    own = 1.0 / (1.0 + np.exp(_odds(np.array(usual)) - _odds(np.array(overall)) - _odds(prior[len(trials) :])))
    squares = (asked[:, None, :-1] - known[None, :, :-1]) ** 2
    near = np.exp(-2.0 * squares.mean(axis=2)) if squares.shape[2] else np.ones(squares.shape[:2])
    same = asked[:, None, -1] == known[None, :, -1]
    share = (near * same) @ valid / np.maximum((near * same) @ judged, np.finfo(float).tiny)
    count = same @ judged
    right = (_PROGRAM_STRENGTH * own + count * share) / (_PROGRAM_STRENGTH + count)
    weights = np.where(same, near, _OTHER_PROGRAM * near)
    return right * (_VALID_STRENGTH + weights @ judged) / (_VALID_STRENGTH + weights.sum(axis=1))


def _odds(p: Array) -> Array:
    held = np.clip(p, _SURE, 1 - _SURE)
    return np.log(held / (1 - held))
