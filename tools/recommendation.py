"""Recommendation for a kernel that was forecast: measure it, skip it, or accept it unmeasured."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from forewarp.core import bins
from forewarp.core.errors import CandidateError
from forewarp.core.protocols import Executor, Subject, Trial
from forewarp.core.values import Candidate, Forecast, Measurement, Task
from forewarp.inspection.features.features import program_of
from forewarp.search.gate import Gate
from forewarp.surrogate import compare
from forewarp.tools.parts import Interval, speedup_of

Advice = Literal["measure", "skip", "accept"]

WORTH = 0.1
"""A candidate is worth a measurement if its chance of beating its rival is at least this."""

SURE, SURE_VALID, CLEAR = 0.95, 0.98, 1.05
"""A candidate is accepted unmeasured if it is valid with `SURE_VALID`, and valid and `CLEAR` times as fast as its rival
with `SURE`: then nearly every measurement would end in taking it."""

_SD_FLOOR = 0.005


@dataclass(frozen=True, slots=True)
class RivalForecast:
    """Recommendation for a candidate, from its forecast and the rival that it has to beat."""

    advice: Advice
    reason: str
    p_better: float


def judge(forecast: Forecast, rival: float, named: str, same: Trial | None) -> RivalForecast:
    """Recommend what to do; `rival` is the speed-up to beat, called `named`; `same` is a trial of the same program."""
    better, clear = (forecast.p_valid * compare.chance_above(forecast, rival * by) for by in (1.0, CLEAR))
    if same is not None:
        return RivalForecast(*_measured_before(same.measurement), better)
    if forecast.p_valid >= SURE_VALID and clear >= SURE:
        sure = f"it is correct and more than {CLEAR - 1:.0%} faster than {named} with {clear:.0%}"
        return RivalForecast("accept", f"{sure}; a measurement would hardly change that", better)
    if better >= WORTH:
        return RivalForecast("measure", f"its chance of beating {named} is {better:.0%}", better)
    return RivalForecast("skip", f"its chance of beating {named} is only {better:.1%}", better)


class MeasuredPrograms:
    """Measured trials of a task, grouped by program."""

    def __init__(self, executor: Executor, task: Task, trials: Sequence[Trial]) -> None:
        self._gate = Gate(executor, task, ())
        self._trials: dict[str, list[Trial]] = {}
        for trial in trials:
            with contextlib.suppress(CandidateError):  # may be malformed by today's rules
                self._trials.setdefault(self._gate.key(trial.subject.candidate), []).append(trial)

    def alike(self, a: Candidate, b: Candidate) -> bool:
        """Return whether two candidates are the same program."""
        return self._gate.key(a) == self._gate.key(b)

    def find(self, candidate: Candidate) -> Trial | None:
        """Return the latest trial of the same program, if there is one."""
        found = self._trials.get(self._gate.key(candidate))
        return found[-1] if found else None

    def best(self) -> Interval | None:
        """Return the speed-up of the best program; an ambiguous measurement counts only where there is no other.

        A program that was measured several times counts with the geometric mean of its speed-ups: taking the highest
        would reward noise. Its interval then reaches from the lowest end to the highest.
        """
        valid = [[t.measurement for t in trials if t.measurement.trusted] for trials in self._trials.values()]
        clear = [[m for m in found if m.verdict != "ambiguous"] for found in valid]
        pooled = [_pooled(found) for found in (clear if any(clear) else valid)]
        return max((p for p in pooled if p is not None), key=lambda p: p.ratio, default=None)


def over_itself(forecast: Forecast) -> Forecast:
    """Return a forecast of the speed-up over the same program: no change, correct with the same probability."""
    return replace(forecast, probabilities=bins.from_normal(0.0, _SD_FLOOR), mean_log2=0.0, sd_log2=_SD_FLOOR)


def as_forecast(measurement: Measurement) -> Forecast | None:
    """Return a measured speed-up as a narrow forecast; None if the measurement is not trusted."""
    found = speedup_of(measurement)
    if found is None or not measurement.trusted or not 0 < found.low <= found.high:
        return None
    mean, sd = math.log2(found.ratio), max(_SD_FLOOR, math.log2(found.high / found.low) / (2 * 1.96))
    return Forecast(bins.from_normal(mean, sd), 1.0, "measured", mean_log2=mean, sd_log2=sd)


def evidence_used(subject: Subject, forecast: Forecast, trials: Sequence[Trial]) -> list[str]:
    """Describe the evidence that a forecast rests on, in words."""
    evidence = subject.build.evidence
    own = program_of(subject.candidate)
    related = sum(program_of(t.subject.candidate) == own for t in trials)
    used = [
        f"{len(evidence.facts)} facts of the compiled kernel" if evidence.facts else "no fact of the compiled kernel"
    ]
    used += [f"{len(evidence.problems)} problems found by looking"] if evidence.problems else []
    used.append(f"{len(trials)} measured trials of this task on this device, {related} of them of this program")
    return [*used, f"the answers of {' and '.join(t.forecaster for t in forecast.tiers or (forecast,))}"]


def _measured_before(m: Measurement) -> tuple[Advice, str]:
    found = speedup_of(m)
    if m.verdict == "ambiguous":
        return "measure", "the same program was measured already, but the result was ambiguous"
    said = f"{found} (95 % interval)" if found and m.trusted else m.verdict if m.status == "ok" else m.status
    return "skip", f"the same program was measured already: {said}"


def _pooled(measured: Sequence[Measurement]) -> Interval | None:
    """Return the geometric mean of a program's speed-ups, and the range of their intervals."""
    found = [s for m in measured if (s := speedup_of(m)) is not None and s.ratio > 0]
    if not found:
        return None
    ratio = math.exp(sum(math.log(s.ratio) for s in found) / len(found))
    return Interval(ratio=ratio, low=min(s.low for s in found), high=max(s.high for s in found))
