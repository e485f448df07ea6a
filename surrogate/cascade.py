"""The cascade: a cheap forecaster answers for all, a dearer one only where its answer could change what is done.

The gate comes before it and is free; the device comes after it and is asked by the search's own policy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from forewarp.core.errors import ModelError
from forewarp.core.protocols import Forecaster, ForecastMemory, Subject, Trial
from forewarp.core.values import Cost, Forecast, Target, Task
from forewarp.inspection.features.features import program_of
from forewarp.surrogate import compare, pooling
from forewarp.surrogate.pooling import Weights
from forewarp.surrogate.prices import Prices, comparable

WORTH = 0.1
"""A candidate below this chance of beating the incumbent is not measured, whatever its score."""

SURE = 0.95
"""A candidate above this chance of beating the incumbent is measured or taken anyhow."""

REACH = 2.0
"""How far an answer is thought to move log2 S at most, in spreads of what it moves."""

RIVAL_GAIN = 0.02
"""Expected improvement, in octaves, that a candidate has to beat where no other candidate promises more."""

OCTAVE_DOLLARS = 10.0
"""Worth of one octave of expected improvement."""

# Nine Gauss-Hermite nodes for a standard normal.
_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
_NOTHING = 1e-6
_NODE_SHARES = _NODE_WEIGHTS / _NODE_WEIGHTS.sum()


CHEAP, DEAR = "learned", "llm"
"""Names of the two tiers in the pool's weights."""


@dataclass(frozen=True, slots=True)
class TierCount:
    """Counts of the dear tier: candidates answered and failed, the cost, and the problem of the latest failure."""

    candidates: int = 0
    failed: int = 0
    cost: Cost = field(default_factory=Cost)
    problem: str = ""


class CascadeForecaster:
    """A cheap forecaster that never fails, and a dear one whose answers are pooled with its own.

    Where the dear one raises `ModelError`, the cheap answer stands, and the rationale says so. An answer that was paid
    for is kept and never bought again. The same question gives the same answer.
    """

    name = "cascade"

    def __init__(
        self,
        cheap: Forecaster,
        dear: Forecaster,
        *,
        expected: Cost | None = None,
        limit: int | None = None,
        prices: Prices | None = None,
        weights: Weights | None = None,
    ) -> None:
        """`expected` is the cost of the first dear answer; at most `limit` are asked for in a call.

        With `prices` none is where measuring tells more for what it costs.
        """
        self._cheap, self._dear, self._expected, self._limit = cheap, dear, expected or Cost(), limit
        self._prices = prices
        self._weights = weights or pooling.shipped()
        self._kept: dict[tuple[str, str, str], Forecast] = {}
        self._down = ""
        self._last: tuple[object, dict[str, Forecast]] = (None, {})
        self.count = TierCount()

    def forecast(
        self, task: Task, target: Target, subjects: Sequence[Subject], history: Sequence[Trial]
    ) -> list[Forecast]:
        """Return one forecast per subject, in order; `tiers` of each holds what it was pooled from."""
        if not subjects:
            return []
        asked = {s.candidate.sha256: s for s in sorted(subjects, key=lambda s: s.candidate.sha256)}
        question, failed = _question(task, target, asked, history), self.count.failed
        known, answers = self._last
        if question != known:
            answers = self._answer(task, target, asked, history)
        forecasts = [answers[s.candidate.sha256] for s in subjects]
        # Only the first delivery of an answer carries its cost; where the dear tier failed, it is worth asking again.
        self._last = None if self.count.failed > failed else question, {k: _free(f) for k, f in answers.items()}
        return [f if _is_first(i, subjects) else _free(f) for i, f in enumerate(forecasts)]

    def recall(self, task: Task, target: Target, forecasts: Mapping[str, Forecast]) -> None:
        """Take over forecasts that an earlier process made and paid for: recorded ones of a cascade, by candidate."""
        for tier in (self._cheap, self._dear):
            own = {k: a for k, f in forecasts.items() for a in f.tiers if a.forecaster == tier.name}
            if isinstance(tier, ForecastMemory):
                tier.recall(task, target, own)
        for sha256, forecast in forecasts.items():
            for answer in forecast.tiers[1:]:
                if answer.forecaster == self._dear.name:
                    self._kept.setdefault((task.sha256, target.name, sha256), _free(answer))

    def _answer(
        self, task: Task, target: Target, asked: Mapping[str, Subject], history: Sequence[Trial]
    ) -> dict[str, Forecast]:
        made = self._cheap.forecast(task, target, list(asked.values()), history)
        keys = {sha256: (task.sha256, target.name, sha256) for sha256 in asked}
        answers = {sha256: [(CHEAP, f)] for sha256, f in zip(asked, made, strict=True)}
        for sha256, key in keys.items():
            if key in self._kept:
                answers[sha256].append((DEAR, self._kept[key]))
        tried = {program_of(t.subject.candidate) for t in history if t.measurement.judged}

        def pooled(sha256: str, rationale: str = "") -> Forecast:
            given = answers[sha256]
            made = pooling.pool(given, self._weights, self.name, rationale)
            # Trials of its program tell whether a candidate is right, and the cheap tier has seen them.
            known = given[0][1].informed and program_of(asked[sha256].candidate) in tried
            return replace(made, p_valid=given[0][1].p_valid) if known else made

        now = {sha256: pooled(sha256) for sha256 in answers}
        incumbent = best_trusted(history)
        unanswered = {sha256: f for sha256, f in now.items() if len(answers[sha256]) == 1}
        scores = {k: f.p_valid * float(compare.gains(f, incumbent, np.zeros(1))[0]) for k, f in now.items()}
        values = self._worth_asking(unanswered, scores, incumbent)
        promised = max([RIVAL_GAIN, *scores.values()])
        dearer = {k for k, gain in values.items() if self._is_dearer(target, asked[k], gain, promised, history)}
        kept = sorted((k for k in values if k not in dearer), key=lambda k: (-values[k], k))
        new = kept[: self._limit]
        problem = self._ask(task, target, [asked[sha256] for sha256 in new], history) if new else ""
        notes = {sha256: "" if len(given) > 1 else f"{DEAR} was not asked." for sha256, given in answers.items()}
        notes |= dict.fromkeys(dearer, f"{DEAR} was not asked: measuring tells more for its price.")
        for sha256 in new:
            key = keys[sha256]
            if key in self._kept:
                answers[sha256].append((DEAR, self._kept[key]))
                self._kept[key] = _free(self._kept[key])
                notes[sha256] = ""
            else:
                notes[sha256] = f"{DEAR} gave no answer, so this stands without it: {problem}"
        return {sha256: pooled(sha256, _rationale(given, notes[sha256])) for sha256, given in answers.items()}

    def _ask(self, task: Task, target: Target, subjects: Sequence[Subject], history: Sequence[Trial]) -> str:
        """Ask the dear tier and keep its answers; returns the problem, or "" if there was none."""
        if self._down:
            return self._down
        count = self.count
        try:
            made = self._dear.forecast(task, target, subjects, history)
        except ModelError as e:
            self._down = "" if e.retryable else e.message
            self.count = replace(count, failed=count.failed + len(subjects), problem=e.message)
            return e.message
        for subject, forecast in zip(subjects, made, strict=True):
            self._kept[task.sha256, target.name, subject.candidate.sha256] = forecast
        cost = sum((f.cost for f in made), count.cost)
        self.count = replace(count, candidates=count.candidates + len(made), cost=cost)
        return ""

    def _worth_asking(
        self, unanswered: Mapping[str, Forecast], scores: Mapping[str, float], incumbent: float
    ) -> dict[str, float]:
        """Return the candidates whose decision the dear tier could change, with the gain in octaves.

        Its answer is the present forecast moved by a normal number of octaves. Knowing it gains E[max(score', rival)] −
        max(E[score'], rival), the rival being the best other candidate, or what a measurement has to promise.
        """
        least_gain = max((self._price().dollars or 0.0) / OCTAVE_DOLLARS, _NOTHING)
        values: dict[str, float] = {}
        for sha256, f in unanswered.items():
            moved = _moved(f, self._weights.error_sd)
            away = 2.0 ** (REACH * moved)
            least, most = (f.p_valid * compare.chance_above(f, incumbent * by) for by in (away, 1 / away))
            if most < WORTH or least >= SURE:
                continue
            rival = max([RIVAL_GAIN, *(score for other, score in scores.items() if other != sha256)])
            moved_scores = f.p_valid * compare.gains(f, incumbent, moved * _NODES)
            mean = float(_NODE_SHARES @ moved_scores)
            gain = float(_NODE_SHARES @ np.maximum(moved_scores, rival)) - max(mean, rival)
            if gain > least_gain:
                values[sha256] = gain
        return values

    def _is_dearer(
        self, target: Target, subject: Subject, gain: float, promised: float, history: Sequence[Trial]
    ) -> bool:
        """Return whether measuring, which gains `promised` octaves, gains more for its cost than asking."""
        if self._prices is None:
            return False
        measuring = self._prices.measuring(target, subject.candidate.language, history)
        if subject.build.pending:
            measuring += self._prices.building(target, history)
        asking_costs, measuring_costs = comparable(self._prices.asking(target, self._price()), measuring)
        return gain * measuring_costs < promised * asking_costs

    def _price(self) -> Cost:
        """Return the cost of a dear answer: the average so far, else the expected one."""
        count, cost = self.count.candidates, self.count.cost
        if not count:
            return self._expected
        dollars = None if cost.dollars is None else cost.dollars / count
        return Cost(cost.seconds / count, cost.input_tokens // count, cost.output_tokens // count, dollars)


def _moved(forecast: Forecast, error_sd: float) -> float:
    """Return the octaves, root mean square, by which an answer with such errors moves a forecast."""
    own = max(0.0, pooling.moments(forecast)[1] ** 2 - forecast.shared_sd_log2**2)
    return own / math.sqrt(own + error_sd**2) if own else 0.0


def _rationale(answers: Sequence[tuple[str, Forecast]], note: str) -> str:
    reasons = [f"{label}: {f.rationale.rstrip('.; ')}." for label, f in answers if f.rationale]
    return " ".join([*reasons, note]).strip()


def best_trusted(history: Sequence[Trial]) -> float:
    """Return the best speed-up that was measured and is to be believed; 1, the reference, where there is none."""
    measured = [t.measurement for t in history]
    return max((m.believed for m in measured if m.verdict != "ambiguous" and m.believed), default=1.0)


def _free(forecast: Forecast) -> Forecast:
    return replace(forecast, cost=Cost(), tiers=tuple(map(_free, forecast.tiers)))


def _is_first(place: int, subjects: Sequence[Subject]) -> bool:
    own = subjects[place].candidate.sha256
    return all(s.candidate.sha256 != own for s in subjects[:place])


def _question(task: Task, target: Target, asked: Mapping[str, Subject], history: Sequence[Trial]) -> object:
    """Return what is equal for calls that ask the same."""
    builds = {sha256: dict(s.build.evidence.facts) for sha256, s in asked.items()}
    trials = [(t.subject.candidate.sha256, t.measurement) for t in history]
    return task.sha256, target.name, builds, trials
