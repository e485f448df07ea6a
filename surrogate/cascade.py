"""The cascade: a cheap forecaster answers for all, a dearer one only where its answer could change what is done.

The gate comes before it and is free; the device comes after it and is asked by the search's own policy.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from forewarp.core.errors import ModelError
from forewarp.core.protocols import Forecaster, ForecastMemory, Subject, TargetTrials, TransferForecaster, Trial
from forewarp.core.values import Cost, Forecast, Target, Task
from forewarp.surrogate import compare, pooling
from forewarp.surrogate.pooling import Weights

WORTH = 0.1
"""A candidate below this chance of beating the incumbent is not measured, whatever its score."""

SURE = 0.95
"""A candidate above this chance of beating the incumbent is measured or taken anyhow."""

REACH = 2.0
"""How far a tier's answer is thought to move log2 S, in spreads of what it moved so far."""

RIVAL_GAIN = 0.02
"""Expected improvement, in octaves, that a candidate has to beat where no other candidate promises more."""

OCTAVE_DOLLARS = 10.0
"""What one octave of expected improvement is worth."""

# Nine Gauss-Hermite nodes for a standard normal.
_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
_NOTHING = 1e-6
_NODE_SHARES = _NODE_WEIGHTS / _NODE_WEIGHTS.sum()


@dataclass(frozen=True, slots=True)
class Tier:
    """One forecaster of a cascade.

    Attributes:
        label: Its name in the weights: learned or llm.
        forecaster: Who answers.
        price: Dollars that a candidate costs, before any was paid for; 0 where it is free or its price is unknown.
        limit: Most candidates that it is asked for in one call; None for all. The first tier answers for all anyhow.
    """

    label: str
    forecaster: Forecaster
    price: float = 0.0
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class TierCount:
    """Counts of one tier: candidates answered and failed, the cost, and the problem of the latest failure."""

    candidates: int = 0
    failed: int = 0
    cost: Cost = field(default_factory=Cost)
    problem: str = ""


class CascadeForecaster:
    """Tiers in the order of their price; each candidate's answers are pooled.

    The first tier must not fail. A later one that raises `ModelError` costs nothing but its answer: those of the
    earlier tiers stand, and the rationale says so. An answer that was paid for is kept for the life of the forecaster,
    pooled with newer answers of the first tier, and never bought again. The same question gives the same answer.
    """

    name = "cascade"

    def __init__(self, tiers: Sequence[Tier], weights: Weights | None = None) -> None:
        if not tiers:
            raise ValueError("a cascade has at least one tier")
        self._tiers, self._weights = tuple(tiers), weights or pooling.shipped()
        self._kept: dict[tuple[str, str, str, str], Forecast] = {}
        self._counts = {tier.label: TierCount() for tier in tiers}
        self._down: dict[str, str] = {}
        self._last: tuple[str, dict[str, Forecast]] = ("", {})

    @property
    def counts(self) -> dict[str, TierCount]:
        """Counts of each tier so far, by label."""
        return dict(self._counts)

    def forecast(
        self, task: Task, target: Target, subjects: Sequence[Subject], history: Sequence[Trial]
    ) -> list[Forecast]:
        """Return one forecast per subject, in order; `tiers` of each holds what it was pooled from."""
        if not subjects:
            return []
        asked = {s.candidate.sha256: s for s in sorted(subjects, key=lambda s: s.candidate.sha256)}
        question, failures = _digest(task, target, asked, history), self._failures()
        known, answers = self._last
        if question != known:
            answers = self._answer(task, target, asked, history)
        found = [answers[s.candidate.sha256] for s in subjects]
        # Only the first delivery of an answer carries its cost; where a tier failed, it is worth asking again.
        failed = self._failures() > failures
        self._last = ("" if failed else question), {sha256: _free(f) for sha256, f in answers.items()}
        return [f if _is_first(i, subjects) else _free(f) for i, f in enumerate(found)]

    def recall(self, task: Task, target: Target, forecasts: Mapping[str, Forecast]) -> None:
        """Take over forecasts that an earlier process made and paid for: recorded ones of a cascade, by candidate."""
        for tier in self._tiers:
            own = {k: a for k, f in forecasts.items() for a in f.tiers if a.forecaster == tier.forecaster.name}
            if isinstance(tier.forecaster, ForecastMemory):
                tier.forecaster.recall(task, target, own)
        by_name = {tier.forecaster.name: tier.label for tier in self._tiers[1:]}
        for sha256, forecast in forecasts.items():
            for answer in forecast.tiers[1:]:
                if answer.forecaster in by_name:
                    key = (by_name[answer.forecaster], task.sha256, target.name, sha256)
                    self._kept.setdefault(key, _free(answer))

    def lend(self, task: Task, target: Target, elsewhere: Mapping[str, TargetTrials]) -> None:
        """Pass on trials of other targets to the tiers that take them."""
        for tier in self._tiers:
            if isinstance(tier.forecaster, TransferForecaster):
                tier.forecaster.lend(task, target, elsewhere)

    def _answer(
        self, task: Task, target: Target, asked: Mapping[str, Subject], history: Sequence[Trial]
    ) -> dict[str, Forecast]:
        first = self._tiers[0]
        made = first.forecaster.forecast(task, target, list(asked.values()), history)
        said = {sha256: [(first.label, f)] for sha256, f in zip(asked, made, strict=True)}
        self._count(first, made)
        notes = dict.fromkeys(asked, "")
        for tier in self._tiers[1:]:
            for sha256 in asked:
                kept = self._kept.get((tier.label, task.sha256, target.name, sha256))
                if kept is not None:
                    said[sha256].append((tier.label, kept))
            new = self._worth_asking(tier, said, history)
            problem = self._ask(tier, task, target, [asked[sha256] for sha256 in new], history)
            for sha256 in asked:
                key = (tier.label, task.sha256, target.name, sha256)
                if sha256 in new and key in self._kept:
                    said[sha256].append((tier.label, self._kept[key]))
                    self._kept[key] = _free(self._kept[key])
                elif sha256 in new:
                    notes[sha256] += f" {tier.label} gave no answer, so this stands without it: {problem}"
        return {
            sha256: pooling.pool(answers, self._weights, self.name, self._rationale(answers, notes[sha256]))
            for sha256, answers in said.items()
        }

    def _ask(
        self, tier: Tier, task: Task, target: Target, subjects: Sequence[Subject], history: Sequence[Trial]
    ) -> str:
        """Ask a tier and keep its answers; returns the problem, or "" if there was none."""
        if not subjects:
            return ""
        if tier.label in self._down:
            return self._down[tier.label]
        try:
            made = tier.forecaster.forecast(task, target, subjects, history)
        except ModelError as e:
            if not e.retryable:
                self._down[tier.label] = e.message
            count = self._counts[tier.label]
            self._counts[tier.label] = replace(count, failed=count.failed + len(subjects), problem=e.message)
            return e.message
        for subject, forecast in zip(subjects, made, strict=True):
            self._kept[(tier.label, task.sha256, target.name, subject.candidate.sha256)] = forecast
        self._count(tier, made)
        return ""

    def _worth_asking(
        self, tier: Tier, said: Mapping[str, Sequence[tuple[str, Forecast]]], history: Sequence[Trial]
    ) -> set[str]:
        """Return the candidates that a tier is asked for: those whose decision it could change, at its price.

        What a tier may answer is thought of as the present forecast moved by a normal number of octaves. It is worth
        what the best choice gains on average by knowing it: E[max(score', rival)] − max(E[score'], rival), where the
        rival is the best of the other candidates, or what a measurement has to promise.
        """
        incumbent, moved = best_trusted(history), self._weights.shift_sd
        now = {sha256: pooling.pool(answers, self._weights, self.name) for sha256, answers in said.items()}
        scores = {k: f.p_valid * float(compare.gains(f, incumbent, np.zeros(1))[0]) for k, f in now.items()}
        price = self._price(tier) / OCTAVE_DOLLARS
        values: dict[str, float] = {}
        for sha256, f in now.items():
            if any(label == tier.label for label, _ in said[sha256]):
                continue
            away = 2.0 ** (REACH * moved)
            least, most = (f.p_valid * compare.chance_above(f, incumbent * by) for by in (away, 1 / away))
            if most < WORTH or least >= SURE:
                continue
            rival = max([RIVAL_GAIN, *(s for other, s in scores.items() if other != sha256)])
            moved_scores = f.p_valid * compare.gains(f, incumbent, moved * _NODES)
            mean = float(_NODE_SHARES @ moved_scores)
            gain = float(_NODE_SHARES @ np.maximum(moved_scores, rival)) - max(mean, rival)
            if gain > max(price, _NOTHING):
                values[sha256] = gain
        chosen = sorted(values, key=lambda k: (-values[k], k))
        return set(chosen[: tier.limit])

    def _failures(self) -> int:
        return sum(count.failed for count in self._counts.values())

    def _price(self, tier: Tier) -> float:
        """Return the cost of a candidate at this tier: the average so far, else the expected one."""
        count = self._counts[tier.label]
        if not count.candidates or count.cost.dollars is None:
            return tier.price
        return count.cost.dollars / count.candidates

    def _count(self, tier: Tier, made: Sequence[Forecast]) -> None:
        count = self._counts[tier.label]
        cost = sum((f.cost for f in made), count.cost)
        self._counts[tier.label] = replace(count, candidates=count.candidates + len(made), cost=cost)

    def _rationale(self, answers: Sequence[tuple[str, Forecast]], note: str) -> str:
        asked = [label for label, _ in answers]
        said = [f"{label}: {f.rationale.rstrip('.; ')}." for label, f in answers if f.rationale]
        if not note and len(answers) < len(self._tiers):
            left = " and ".join(t.label for t in self._tiers if t.label not in asked)
            note = f"{left} was not asked."
        return " ".join([*said, note.strip()]).strip()


def best_trusted(history: Sequence[Trial]) -> float:
    """Return the best speed-up that was measured and is to be believed; 1, the reference, where there is none."""
    found = [t.measurement for t in history]
    return max((m.speedup for m in found if m.trusted and m.verdict != "ambiguous" and m.speedup), default=1.0)


def _free(forecast: Forecast) -> Forecast:
    return replace(forecast, cost=Cost(), tiers=tuple(map(_free, forecast.tiers)))


def _is_first(place: int, subjects: Sequence[Subject]) -> bool:
    own = subjects[place].candidate.sha256
    return all(s.candidate.sha256 != own for s in subjects[:place])


def _digest(task: Task, target: Target, asked: Mapping[str, Subject], history: Sequence[Trial]) -> str:
    trials = [
        (t.subject.candidate.sha256, t.measurement.status, t.measurement.verdict, t.measurement.speedup)
        for t in history
    ]
    builds = {sha256: dict(s.build.evidence.facts) for sha256, s in asked.items()}
    return hashlib.sha256(json.dumps([task.sha256, target.name, builds, trials]).encode()).hexdigest()
