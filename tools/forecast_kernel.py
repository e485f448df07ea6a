"""Forecast kernels: whether each compiles, how fast it will be, which is best, and what is worth a measurement."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from forewarp.core import bins
from forewarp.core.errors import CandidateError, UsageError
from forewarp.core.protocols import BoundedCompiler, Executor, Forecaster, Subject, Trial, with_evidence
from forewarp.core.untrusted_text import clip, first_error
from forewarp.core.values import Build, Candidate, Cost, Forecast, Measurement, Status, Task
from forewarp.inspection.features.features import program_of
from forewarp.search.gate import Gate
from forewarp.surrogate import compare
from forewarp.surrogate.asking import ask
from forewarp.tools import session as sessions
from forewarp.tools import wording
from forewarp.tools.inspect_kernel import choose_target
from forewarp.tools.parts import (
    SCHEMA_VERSION,
    Device,
    Facts,
    Interval,
    KernelId,
    Part,
    Prediction,
    Price,
    median_of,
    prediction_of,
    speedup_of,
)
from forewarp.tools.plan_proposal import planned_candidate
from forewarp.tools.requests import ForecastRequest
from forewarp.tools.run_report import TierLine
from forewarp.tools.session import Executors, Session, closing_executors
from forewarp.tools.suite_modules import identical

if TYPE_CHECKING:
    from forewarp.surrogate.models import LanguageModel

COMPILE_CPU_S = 15
"""Seconds of processor time that a forecast spends on compiling one kernel; honest ones take a tenth of it."""
MAX_THREADS = 8

Advice = Literal["measure", "skip", "accept"]

WORTH = 0.1
"""A candidate is worth a measurement if its chance of beating its rival is at least this."""

SURE, SURE_VALID, CLEAR = 0.95, 0.98, 1.05
"""A candidate is accepted unmeasured if it is valid with `SURE_VALID`, and valid and `CLEAR` times as fast as its rival
with `SURE`: then nearly every measurement would end in taking it."""

_SD_FLOOR = 0.005


class RankedKernel(Part):
    """One of several kernels: its forecast and its place among them, or why there is none."""

    position: int = Field(description="Its place in the request, from 1.")
    path: str = Field(description="File of the kernel; empty where it was given as text.")
    kernel: KernelId | None = None
    status: Status | None = Field(default=None, description="That of compiling it; null where it was not compiled.")
    problem: str = Field(default="", description="Why it is not ranked.")
    recommendation: Advice | None = None
    reason: str = ""
    forecast: Prediction | None = None
    p_better: float | None = None
    already_measured: Interval | None = None
    value: float | None = Field(
        default=None, description="What the order is by: p_valid times the geometric mean of the speed-up."
    )
    p_best: float | None = Field(default=None, description="Probability of being correct and the fastest of these.")
    p_faster_than: list[float] = Field(
        default_factory=list[float],
        description="Probability of being faster than each ranked kernel, in the order of the ranking, if both are "
        "correct; 0.5 against itself.",
    )
    cost: Price = Price()


class ForecastResult(Part):
    """Forecast of a kernel before it runs, and whether to measure it; of several, the most promising one's."""

    summary: str
    schema_version: int = SCHEMA_VERSION
    status: Status
    recommendation: Advice
    reason: str
    task: str
    device: Device
    kernel: KernelId
    anchor: str = Field(default="reference", description="reference, or the sha256 of the kernel forecast against.")
    forecast: Prediction | None = Field(description="Null where the kernel does not compile.")
    p_better: float | None = Field(
        default=None, description="Probability of being correct and faster than the best so far, or than the anchor."
    )
    best_so_far: Interval | None = Field(
        default=None, description="Best measured speed-up of this task on this device, over the reference."
    )
    already_measured: Interval | None = Field(
        default=None, description="Measured speed-up of this very program over the reference, if any."
    )
    trials: int = Field(description="Measurements of this task on this device that the forecast rests on.")
    evidence: Facts = Facts()
    evidence_used: list[str] = Field(default_factory=list[str], description="What the forecast rests on, in words.")
    log: str = ""
    cost: Price = Field(default=Price(), description="Of the whole call.")
    tiers: list[TierLine] = Field(default_factory=list[TierLine], description="Who was asked about how many kernels.")
    ranking: list[RankedKernel] = Field(
        default_factory=list[RankedKernel], description="Where several were asked about: all, the best first."
    )


@dataclass(slots=True)
class _Kernel:
    """One kernel of a request, with what is known of it so far; `problem` says why it is not ranked.

    `over_reference` is its forecast as made, `forecast` that over the anchor of the request. `same` is the latest trial
    of the same program.
    """

    position: int
    path: str
    candidate: Candidate | None = None
    problem: str = ""
    build: Build | None = None
    over_reference: Forecast | None = None
    forecast: Forecast | None = None
    judged: RivalForecast | None = None
    same: Trial | None = None

    @property
    def name(self) -> str:
        return Path(self.path).name or f"number {self.position}"

    def result(self) -> dict[str, object]:
        if self.over_reference is None or self.judged is None:
            return {}
        return {
            "recommendation": self.judged.advice,
            "reason": self.judged.reason,
            "forecast": prediction_of(self.forecast),
            "p_better": self.judged.p_better,
            "already_measured": speedup_of(self.same.measurement if self.same else None),
            "cost": Price.of(self.over_reference.cost),
        }


@dataclass(frozen=True, slots=True)
class _Known:
    """Data that all kernels of a request share; `anchor` forecasts the kernel to beat, if there is one."""

    opened: Session
    trials: list[Trial]
    other: Candidate | None
    anchor: Forecast | None
    anchor_measured: bool
    best: Interval | None
    measured: MeasuredPrograms

    @property
    def anchor_name(self) -> str:
        return f"kernel {self.other.short}" if self.other else "the reference"


def forecast_kernel(
    request: ForecastRequest, *, executors: Executors | None = None, forecaster: Forecaster | None = None
) -> ForecastResult:
    """Compile the kernels, forecast them in one call, and recommend what to do with each; runs none of them.

    `executors` keeps the device warm between calls; `forecaster` is used instead of the one that is named. Raises
    `UsageError` for a request that makes no sense, and `CandidateError` where no kernel can be read or the one to
    forecast against cannot be used.
    """
    if request.target is not None and (request.place.device != "auto" or request.place.pool):
        raise UsageError(
            f"a forecast for {request.target} is made for that device, so that --device and --pool would do nothing",
            hint="leave them out, or leave --target out to forecast for the device",
        )
    kernels = [_Kernel(position, kernel.called) for position, kernel in enumerate(request.kernels, 1)]
    _each(kernels, lambda k: _read(k, request, executors))
    other = planned_candidate(request.against, request.task, request.place, executors) if request.against else None
    model = sessions.make_model(request.model, request.base_url) if forecaster is None else None
    chosen = request.forecaster or ("cascade" if model else "learned")
    if forecaster is None:
        sessions.check_forecaster(chosen, model)
    with _opened(request, executors) as opened:
        start = time.perf_counter()
        _each(kernels, lambda k: k.candidate and sessions.check_language(k.candidate, opened.executor))
        if other is not None:
            sessions.check_language(other, opened.executor)
        candidates = {c.sha256: c for c in (*(k.candidate for k in kernels), other) if c}
        builds = _compiled(opened, candidates, alone=len(kernels) == 1)
        asked = forecaster or _forecaster(opened, chosen, model, at_hand=request.target is None)
        known, forecasts = _forecasts(opened, asked, builds, other)
        firsts: dict[str, _Kernel] = {}
        for kernel in kernels:
            if kernel.candidate is not None:
                _judge(known, kernel, builds, forecasts, firsts)
        result = _result(known, kernels)
    spent = sum((f.cost for f in forecasts.values()), Cost())
    return result.model_copy(
        update={"cost": Price.of(spent, seconds=time.perf_counter() - start), "tiers": _tiers(forecasts.values())}
    )


def _each(kernels: Sequence[_Kernel], do: Callable[[_Kernel], object]) -> None:
    """Do something to every kernel that has no problem yet; an error becomes one, except of a kernel alone.

    Raises `CandidateError` where no kernel is left.
    """
    for kernel in kernels:
        try:
            if not kernel.problem:
                do(kernel)
        except CandidateError as e:
            if len(kernels) == 1:
                raise
            kernel.candidate, kernel.problem = None, str(e)
    if all(kernel.candidate is None for kernel in kernels):
        why = "\n\n".join(f"{kernel.name}: {kernel.problem}" for kernel in kernels)
        raise CandidateError("none of the kernels can be forecast", hint=why)


def _read(kernel: _Kernel, request: ForecastRequest, executors: Executors | None) -> None:
    given = request.kernels[kernel.position - 1]
    kernel.candidate = planned_candidate(given, request.task, request.place, executors)


def forecast_builds(opened: Session, candidates: Sequence[Candidate]) -> list[tuple[Build, Forecast | None]]:
    """Compile candidates for a device that need not be here, and forecast those that compile."""
    builds = _compiled(opened, {c.sha256: c for c in candidates}, alone=False)
    forecaster = _forecaster(opened, "learned", None, at_hand=False)
    forecasts = _forecasts(opened, forecaster, builds, None)[1]
    return [(with_facts.build, forecasts.get(sha256)) for sha256, with_facts in builds.items()]


@contextmanager
def _opened(request: ForecastRequest, executors: Executors | None) -> Generator[Session]:
    place = request.place
    if request.target is None:
        with sessions.open_session(place, request.task, executors, **request.options) as opened:
            yield opened
        return
    target = choose_target(request.target)
    task = sessions.load_task(request.task, place, **request.options)
    with sessions.open_archive(place) as archive, closing_executors(executors) as kept:
        yield Session(task, kept.compiler(place, target), archive)


def _forecaster(opened: Session, name: str, model: LanguageModel | None, *, at_hand: bool) -> Forecaster:
    """Return the forecaster of a name, which knows the reference's time as far as that can be told."""
    references = sessions.reference_time(opened.archive, opened.task, opened.executor, at_hand=at_hand)
    made = sessions.make_forecaster(name, model, references=references)
    assert made is not None
    return made


def _compiled(opened: Session, candidates: dict[str, Candidate], *, alone: bool) -> dict[str, Subject]:
    """Compile kernels by their identity, all at once."""

    def compiled(candidate: Candidate) -> Subject:
        executor = opened.executor
        try:
            if isinstance(executor, BoundedCompiler):
                build = executor.compile_within(opened.task, candidate, COMPILE_CPU_S)
            else:
                build = executor.compile(opened.task, candidate)
            return Subject(candidate, with_evidence(opened.executor, opened.task, candidate, build))
        except CandidateError as e:
            if alone:
                raise
            return Subject(candidate, Build("compile_error", 0.0, log=f"error: {e}"))

    with ThreadPoolExecutor(_threads(len(candidates)), thread_name_prefix="compile") as pool:
        return dict(zip(candidates, pool.map(compiled, candidates.values()), strict=True))


def _forecasts(
    opened: Session, forecaster: Forecaster, builds: dict[str, Subject], other: Candidate | None
) -> tuple[_Known, dict[str, Forecast]]:
    """Forecast all kernels that compile in one call; a measurement of the kernel to beat replaces its forecast."""
    task, target = opened.task, opened.executor.target
    itself = identical(task).sha256
    measured_here = opened.archive.trials(task.sha256, target.name)
    trials = _with_evidence(opened, [t for t in measured_here if t.subject.candidate.sha256 != itself])
    programs, measured = MeasuredPrograms(opened.executor, task, trials), None
    if other is not None:
        build = builds[other.sha256].build
        if build.status != "ok":
            raise CandidateError(
                f"the kernel to forecast against does not compile: {clip(build.log, 600)}",
                hint="forecast it alone first, and pass one that compiles",
            )
        same = programs.find(other)
        measured = as_forecast(same.measurement) if same else None
    subjects = {sha256: s for sha256, s in builds.items() if s.build.status == "ok"}
    made = ask(forecaster, task, target, list(subjects.values()), trials) if subjects else []
    forecasts = dict(zip(subjects, made, strict=True))
    for sha256, forecast in forecasts.items():
        opened.archive.add_cost(None, forecast.cost, f"forecast of {sha256[:10]}")
    anchor = None if other is None else measured or forecasts[other.sha256]
    return _Known(opened, trials, other, anchor, measured is not None, programs.best(), programs), forecasts


def _with_evidence(opened: Session, trials: Sequence[Trial]) -> list[Trial]:
    """Add the evidence that measuring does not collect to measured modules, so that they compare with new ones."""

    def one(trial: Trial) -> Trial:
        candidate, build = trial.subject.candidate, trial.subject.build
        return replace(trial, subject=Subject(candidate, with_evidence(opened.executor, opened.task, candidate, build)))

    with ThreadPoolExecutor(_threads(len(trials)), thread_name_prefix="trace") as pool:
        return list(pool.map(one, trials))


def _threads(count: int) -> int:
    return max(1, min(MAX_THREADS, count, (os.cpu_count() or 2) - 1))


def _judge(
    known: _Known, k: _Kernel, builds: dict[str, Subject], forecasts: dict[str, Forecast], firsts: dict[str, _Kernel]
) -> None:
    """Put what is known of a kernel into it: its build, and its forecast with a recommendation or why there is none."""
    assert k.candidate is not None
    sha256, best = k.candidate.sha256, known.best
    k.build, k.same = builds[sha256].build, known.measured.find(k.candidate)
    forecast = forecasts.get(sha256)
    if (first := firsts.setdefault(sha256, k)) is not k:
        k.problem = f"it is the same kernel as {first.name}"
    elif forecast is None:
        k.problem = f"it does not compile: {first_error(k.build.log)}"
    elif known.other is None or known.anchor is None:
        ahead = best is not None and best.ratio > 1
        rival = f"the best so far, {best}," if ahead else "the reference"
        k.over_reference = k.forecast = forecast
        k.judged = judge(forecast, best.ratio if best and ahead else 1.0, rival, k.same)
    else:
        k.over_reference, k.forecast = forecast, compare.quotient(forecast, known.anchor)
        # Both must have been measured for the question to be settled.
        settled = k.same if known.anchor_measured else None
        k.judged = judge(k.forecast, 1.0, known.anchor_name, settled)
        if known.measured.alike(k.candidate, known.other):
            k.forecast = over_itself(k.forecast)
            k.judged = RivalForecast("skip", f"it is the same program as {known.anchor_name}", 0.0)


def _lines(ranked: Sequence[_Kernel]) -> list[RankedKernel]:
    """Return a line for each kernel that has a forecast, in this order."""
    forecasts = [k.over_reference for k in ranked if k.over_reference]
    chances = compare.chances_best(forecasts)

    def faster(one: int, other: int) -> float:
        return 0.5 if one == other else round(compare.chance_faster(forecasts[one], forecasts[other]), 4)

    return [
        _line(
            k,
            value=compare.value(k.forecast) if k.forecast else None,
            p_best=round(chances[place], 4),
            p_faster_than=[faster(place, other) for other in range(len(ranked))],
            **k.result(),
        )
        for place, k in enumerate(ranked)
    ]


def _line(k: _Kernel, **fields: object) -> RankedKernel:
    if k.build is not None and k.build.status != "ok":
        fields["recommendation"] = "skip"
    kernel, status = KernelId.of(k.candidate) if k.candidate else None, k.build.status if k.build else None
    return RankedKernel.of(k, kernel=kernel, status=status, **({"forecast": None} | fields))


def _result(known: _Known, kernels: Sequence[_Kernel]) -> ForecastResult:
    """Return the result of the most promising kernel, with a line for each where there are several."""
    ranked = [k for k in kernels if not k.problem]
    order = compare.ranking([k.over_reference for k in ranked if k.over_reference])
    ranked = [ranked[place] for place in order]
    lines = [*_lines(ranked), *(_line(k) for k in kernels if k.problem)]
    k = ranked[0] if ranked else next(k for k in kernels if k.candidate is not None)
    assert k.candidate is not None
    assert k.build is not None
    opened, build = known.opened, k.build
    if k.judged is not None:
        text = _summary(known, k) if len(kernels) == 1 else _ranking_summary(known, lines)
        more = k.result() | {"summary": text, "evidence_used": _evidence_used(k, known.trials)}
    elif build.status == "timeout":
        why = f"compiling it takes longer than a forecast waits ({COMPILE_CPU_S} s of processor time)"
        more = {"summary": f"Skip: {why}. {build.log}", "reason": f"{why}; a measurement waits longer"}
    else:
        text = f"Skip: the kernel does not compile ({build.status}). {first_error(build.log)}".strip()
        more = {"summary": text, "reason": "it does not compile; the log says why"}
    return ForecastResult.of(
        build,
        **({"recommendation": "skip", "forecast": None} | more),
        task=opened.task.name,
        device=Device.of(opened.executor.target),
        kernel=KernelId.of(k.candidate),
        anchor=known.other.sha256 if known.other else "reference",
        best_so_far=known.best,
        trials=len(known.trials),
        log=clip(build.log),
        ranking=lines if len(kernels) > 1 else [],
    )


def _summary(known: _Known, k: _Kernel) -> str:
    if k.judged is None or k.forecast is None or k.over_reference is None:
        return ""
    device = known.opened.executor.target.name
    basis = f"from {wording.counted(len(known.trials), 'trial')} of this task on {device}"
    first = (k.over_reference.tiers or (k.over_reference,))[0]
    prior = "the broad prior, because " if first.rationale.startswith("prior") else ""
    if prior or not known.trials:
        what = "nothing like it for" if known.trials else "nothing of"
        basis = f"{prior}{what} this task has been measured on {device} yet"
    return (
        f"{k.judged.advice.capitalize()}: {k.judged.reason}. Forecast {median_of(k.forecast)} (80 % interval) over "
        f"{known.anchor_name} if correct: {basis}."
    )


def _ranking_summary(known: _Known, lines: Sequence[RankedKernel]) -> str:
    ranked = [r for r in lines if not r.problem]
    best, rest = ranked[0], len(lines) - len(ranked)

    def name(line: RankedKernel) -> str:
        return Path(line.path).name or f"number {line.position}"

    named = ", ".join(f"{name(r)} ({r.recommendation})" for r in ranked)
    median = best.forecast.median if best.forecast else ""
    failed = f" {rest} not ranked." if rest else ""
    if len(ranked) > 1 and len({str(r.forecast) for r in ranked}) == 1:
        return (
            f"The forecast cannot tell {len(ranked)} kernels apart: {median} (80 % interval) over {known.anchor_name} "
            f"if correct, for each. Measure one that you know and the one that you believe in: {named}.{failed}"
        )
    return (
        f"Most promising of {len(lines)}: {name(best)}, forecast {median} (80 % interval) over {known.anchor_name} if "
        f"correct, the best of these with {wording.chance(best.p_best or 0)}. "
        f"{(best.recommendation or 'skip').capitalize()} it: {best.reason}. Order: {named}.{failed}"
    )


def _evidence_used(k: _Kernel, trials: Sequence[Trial]) -> list[str]:
    """Describe the evidence that a forecast rests on, in words."""
    assert k.candidate is not None
    evidence = k.build.evidence if k.build else None
    facts, problems = (evidence.facts, evidence.problems) if evidence else ({}, ())
    related = sum(program_of(t.subject.candidate) == program_of(k.candidate) for t in trials)
    asked = [t.forecaster for f in [k.over_reference] if f for t in f.tiers or (f,)]
    return [
        f"{len(facts)} facts of the compiled kernel" if facts else "no fact of the compiled kernel",
        *([f"{len(problems)} problems found by looking"] if problems else []),
        f"{wording.counted(len(trials), 'trial')} of this task on this device, {related} of this program",
        f"the answers of {' and '.join(asked)}",
    ]


def _tiers(forecasts: Iterable[Forecast]) -> list[TierLine]:
    answered: dict[str, list[Forecast]] = {}
    for forecast in forecasts:
        for answer in forecast.tiers or (forecast,):
            answered.setdefault(answer.forecaster, []).append(answer)
    return [
        TierLine(
            tier=tier,
            candidates=len(answers),
            unread=sum(a.raw_sum == 0 for a in answers),
            cost=Price.of(sum((a.cost for a in answers), Cost())),
        )
        for tier, answers in answered.items()
    ]


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
        sure = f"it is correct and more than {CLEAR - 1:.0%} faster than {named} with {wording.chance(clear)}"
        return RivalForecast("accept", f"{sure}; a measurement would hardly change that", better)
    if better >= WORTH:
        return RivalForecast("measure", f"its chance of beating {named} is {wording.chance(better)}", better)
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
