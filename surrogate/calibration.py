"""Recalibration of forecasts from what was measured after them, shrunk so that few outcomes change little.

A correction has five parameters. A forecast's cumulative probability F at each bin edge becomes

    z = Φ⁻¹(F) / s,   s = exp(spread) · (sd / 0.3)^tilt,   F′ = (1 − tails)·Φ(z) + tails·Φ(z / 4)

with sd the forecast's own spread in octaves: one factor for all spreads, one for forecasts that are sharper or wider
than usual, and a wide component for surprises. It is a recalibration of the probability integral transform (Kuleshov,
Fenner, Ermon 2018) with R(½) = ½, so that medians, and with them the order of candidates, stay exactly as they are.
`p_valid` goes through a rising line on the logit scale (Platt 1999).

A fit is the mode of a posterior whose priors (normal for `tails`, Cauchy for the others) sit at the calibration that
the fit starts from: a small correction takes much evidence, a large one, once it is clear, is hardly held back.
Outcomes of one task resemble each other, so n of them count as n / (1 + (n − 1)·correlation).
`docs/forecasting.md` says what else was compared.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarp.core import bins, serde
from forewarp.core.protocols import Forecaster, ForecastMemory, Subject, Trial
from forewarp.core.values import Z80, Cost, Forecast, Target, Task
from forewarp.surrogate.blas import one_thread
from forewarp.surrogate.drift import Drift

Array = NDArray[np.float64]

MIN_OUTCOMES = 12
"""With fewer outcomes than this, a fit stays where it starts."""

CORRELATION = 0.3
"""Assumed correlation of outcomes of one task, for a fit over several tasks."""

_SHIPPED = Path(__file__).parent / "calibrations.json"
_TINY = 1e-6
_USUAL_SD = 0.3
_WIDE = 4.0
_FAR = 37.0
_RESOLVED = 1e-4
_ALARMED = 2.0
_PRIOR = np.array([0.15, 0.08, 0.04])
_FIRST_TAILS = 0.02
_SEARCH = {"maxiter": 40, "ftol": 1e-7, "eps": 1e-6}
_BOUNDS = ((-1.5, 1.5), (-0.9, 0.9), (0.0, 0.3))
_VALID_PRIOR = np.array([0.7, 0.4])
_VALID_BOUNDS = ((-3.0, 3.0), (-1.5, 1.5))


@dataclass(frozen=True, slots=True)
class Outcome:
    """A forecast with its measured speed-up, None if not valid or believed; those of a `task` resemble each other."""

    forecast: Forecast
    speedup: float | None
    task: str = ""

    @property
    def valid(self) -> bool:
        return self.speedup is not None


@dataclass(frozen=True, slots=True)
class Calibration:
    """Correction of one tier's forecasts, by default none, and how many outcomes and tasks it rests on."""

    tier: str = ""
    spread: float = 0.0
    tilt: float = 0.0
    tails: float = 0.0
    valid_shift: float = 0.0
    valid_slope: float = 0.0
    outcomes: int = 0
    tasks: int = 0

    @property
    def is_identity(self) -> bool:
        return not any((self.spread, self.tilt, self.tails, self.valid_shift, self.valid_slope))

    def apply(self, forecast: Forecast) -> Forecast:
        """Return the corrected forecast; its median, name, rationale and cost stay."""
        if self.is_identity:
            return forecast
        sd = spread_of(forecast)
        p = corrected(normal_scores(forecast)[None, :], np.array([sd]), (self.spread, self.tilt, self.tails))[0]
        factor = scale(np.array([sd]), self.spread, self.tilt)[0] * half_width(self.tails) / Z80
        return replace(
            forecast,
            probabilities=bins.normalise([float(v) for v in p]),
            p_valid=line(forecast.p_valid, self.valid_shift, self.valid_slope),
            # Corrected bins spread their mass evenly again, which would move the median within its bin.
            mean_log2=math.log2(forecast.median),
            sd_log2=None if forecast.sd_log2 is None else forecast.sd_log2 * float(factor),
        )


IDENTITY = Calibration()


def fit(
    outcomes: Sequence[Outcome],
    start: Calibration = IDENTITY,
    *,
    correlation: float = CORRELATION,
    looseness: float = 1.0,
) -> Calibration:
    """Return the calibration that fits the outcomes, shrunk towards `start`, by priors as loose as `looseness`.

    With fewer than `MIN_OUTCOMES` valid outcomes the distribution's part stays, with fewer of all that of `p_valid`.
    """
    timed = [o for o in outcomes if o.valid]
    found = start
    if len(timed) >= MIN_OUTCOMES:
        spread, tilt, tails = _fit_distribution(timed, start, correlation, looseness)
        found = replace(found, spread=spread, tilt=tilt, tails=tails)
    if len(outcomes) >= MIN_OUTCOMES:
        shift, slope = _fit_valid(outcomes, start, correlation, looseness)
        found = replace(found, valid_shift=shift, valid_slope=slope)
        found = replace(found, outcomes=len(outcomes), tasks=len({o.task for o in outcomes}))
    return found


def shipped(tier: str) -> Calibration:
    """Return the calibration that comes with forewarp for a tier, of `llm:MODEL` else that of `llm`, else none."""
    table = _shipped()
    return table.get(tier) or table.get(tier.partition(":")[0]) or Calibration(tier)


@lru_cache(maxsize=1)
def _shipped() -> dict[str, Calibration]:
    rows: list[Any] = json.loads(_SHIPPED.read_text())
    return {c.tier: c for c in (serde.from_data(Calibration, row) for row in rows)}


class Recalibrated:
    """A forecaster whose forecasts are corrected, first as shipped, then by what the run itself measures.

    It remembers each forecast until the history holds the measurement; from `MIN_OUTCOMES` on the calibration is
    refitted, with the shipped one as its prior. When the drift alarm goes off, the run's outcomes count in full and the
    prior is loosened. The same calls in the same order give the same answers, after a resume with `recall`.
    """

    def __init__(self, forecaster: Forecaster, calibration: Calibration | None = None) -> None:
        self._forecaster = forecaster
        self._start = shipped(forecaster.name) if calibration is None else calibration
        self._outcomes: dict[tuple[str, str], TaskOutcomes] = {}

    @property
    def name(self) -> str:
        return self._forecaster.name

    def forecast(
        self, task: Task, target: Target, subjects: Sequence[Subject], history: Sequence[Trial]
    ) -> list[Forecast]:
        raw = self._forecaster.forecast(task, target, subjects, history)
        outcomes = self.outcomes(task, target)
        outcomes.learn(history, task.name)
        current = outcomes.calibration()
        made = [replace(current.apply(f), uncorrected=replace(f, rationale="", cost=Cost(), tiers=())) for f in raw]
        measured = {t.subject.candidate.sha256 for t in history}
        for subject, before, after in zip(subjects, raw, made, strict=True):
            if subject.candidate.sha256 not in measured:
                outcomes.open[subject.candidate.sha256] = before, after
        return [replace(f, rationale=f"{f.rationale}; {_DOUBT}") for f in made] if outcomes.drift.alarmed else made

    def recall(self, task: Task, target: Target, forecasts: Mapping[str, Forecast]) -> None:
        """Take over the forecasts that an earlier process made of this task's candidates."""
        outcomes = self.outcomes(task, target)
        for kernel, made in forecasts.items():
            if made.uncorrected is not None:
                outcomes.open.setdefault(kernel, (made.uncorrected, made))
        if isinstance(self._forecaster, ForecastMemory):
            self._forecaster.recall(task, target, forecasts)

    def outcomes(self, task: Task, target: Target) -> TaskOutcomes:
        """Return the outcomes of this task on this target so far, with the calibration that they make."""
        return self._outcomes.setdefault((task.sha256, target.name), TaskOutcomes(self._start))


_DOUBT = "measured outcomes drift away from this forecaster's calibration"


@dataclass(slots=True)
class TaskOutcomes:
    """Forecasts of one task on one target with outcomes; `open` ones (uncorrected, corrected) have none yet."""

    start: Calibration
    open: dict[str, tuple[Forecast, Forecast]] = field(default_factory=dict[str, tuple[Forecast, Forecast]])
    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    drift: Drift = field(default_factory=Drift)
    _fitted: tuple[int, Calibration] | None = None

    def learn(self, history: Sequence[Trial], task: str) -> None:
        """Turn open forecasts into outcomes, in the order of the history."""
        for trial in history:
            key = trial.subject.candidate.sha256
            if key in self.open:
                before, after = self.open.pop(key)
                outcome = Outcome(before, trial.measurement.believed, task)
                self.outcomes.append(outcome)
                self.drift.observe(key, after, valid=outcome.valid, speedup=outcome.speedup)

    def calibration(self) -> Calibration:
        """Return the calibration after all outcomes so far; refitted only when there are new ones."""
        if self._fitted is None or self._fitted[0] != len(self.outcomes):
            correlation, looseness = (0.0, _ALARMED) if self.drift.alarmed else (CORRELATION, 1.0)
            fitted = fit(self.outcomes, self.start, correlation=correlation, looseness=looseness)
            self._fitted = len(self.outcomes), fitted
        return self._fitted[1]


def normal_scores(forecast: Forecast) -> Array:
    """Return Φ⁻¹(F) at the seven inner edges, where F is too near 0 or 1, by distance from the median.

    Mass that a wider forecast sends over an edge must land beside it, not in the outermost bin.
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


def _weights(outcomes: Sequence[Outcome], correlation: float) -> Array:
    counts = Counter(o.task for o in outcomes)
    return np.array([1 / (1 + (counts[o.task] - 1) * correlation) for o in outcomes])


def _fit_distribution(
    timed: Sequence[Outcome], start: Calibration, correlation: float, looseness: float
) -> tuple[float, float, float]:
    scores = np.stack([normal_scores(o.forecast) for o in timed])
    sd = np.array([spread_of(o.forecast) for o in timed])
    rows, measured = np.arange(len(timed)), np.array([bins.bin_of(o.speedup or 1.0) for o in timed])
    weights = _weights(timed, correlation)

    def surprise(x: Array) -> float:
        return -float(weights @ np.log(np.maximum(corrected(scores, sd, (x[0], x[1], x[2]))[rows, measured], 1e-30)))

    centre = np.array([start.spread, start.tilt, start.tails])
    # The priors' long tails make for several modes. Without tails, a sharp forecast that missed by far gives no slope.
    starts = [
        np.array([max(-1.4, min(1.4, v)), start.tilt, max(start.tails, _FIRST_TAILS)])
        for v in (start.spread, start.spread + 1.0, start.spread - 0.7)
    ]
    spread, tilt, tails = _mode(surprise, centre, starts, _PRIOR * looseness, _BOUNDS)
    return spread, tilt, tails


def _fit_valid(
    outcomes: Sequence[Outcome], start: Calibration, correlation: float, looseness: float
) -> tuple[float, float]:
    said = np.clip([o.forecast.p_valid for o in outcomes], _TINY, 1 - _TINY)
    logits, weights = np.log(said / (1 - said)), _weights(outcomes, correlation)
    signs = np.array([1.0 if o.valid else -1.0 for o in outcomes])

    def surprise(x: Array) -> float:
        return float(weights @ np.logaddexp(0.0, -signs * (x[0] + np.exp(x[1]) * logits)))

    centre = np.array([start.valid_shift, start.valid_slope])
    shift, slope = _mode(surprise, centre, [centre], _VALID_PRIOR * looseness, _VALID_BOUNDS)
    return shift, slope


def _mode(
    loss: Any, centre: Array, starts: Sequence[Array], scales: Array, bounds: Sequence[tuple[float, float]]
) -> list[float]:
    """Return the minimum of a loss plus the prior's, searched from several starts, rounded to what data can tell."""
    from scipy.optimize import minimize

    def posterior(x: Array) -> float:
        away = ((x - centre) / scales) ** 2
        return loss(x) + float(np.log1p(away[:2]).sum() + away[2:].sum())

    with one_thread():
        found: list[Any] = [minimize(posterior, s, method="L-BFGS-B", bounds=bounds, options=_SEARCH) for s in starts]
    return [round(float(v), 4) for v in min(found, key=lambda f: f.fun).x]
