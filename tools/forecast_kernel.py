"""Forecast kernels: whether each compiles, how fast it will be, which is best, and what is worth a measurement."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from forewarp.core.errors import CandidateError, UsageError
from forewarp.core.protocols import Forecaster, Subject, Trial, with_evidence
from forewarp.core.values import Build, Candidate, Cost, Forecast
from forewarp.surrogate import compare
from forewarp.tools import recommendation
from forewarp.tools import session as sessions
from forewarp.tools.forecasted import ForecastResult, RankedKernel
from forewarp.tools.inspect_kernel import choose_target
from forewarp.tools.parts import (
    Device,
    Facts,
    Interval,
    Kernel,
    KernelId,
    Price,
    median_of,
    prediction_of,
    speedup_of,
    trim,
)
from forewarp.tools.recommendation import RivalForecast
from forewarp.tools.requests import ForecastRequest
from forewarp.tools.run_report import TierLine
from forewarp.tools.session import Executors, Session

Given = TypeVar("Given")

MAX_KERNELS = 64
MAX_THREADS = 8


@dataclass(frozen=True, slots=True)
class _Known:
    """Data that all kernels of a request share; `anchor` forecasts the kernel to beat, if there is one."""

    opened: Session
    trials: list[Trial]
    other: Candidate | None
    anchor: Forecast | None
    anchor_measured: bool
    best: Interval | None
    measured: recommendation.MeasuredPrograms


@dataclass(frozen=True, slots=True)
class _Answer:
    """Forecast of a kernel that compiles: `over_reference` as made, `forecast` over the anchor of the request."""

    subject: Subject
    over_reference: Forecast
    forecast: Forecast
    judged: RivalForecast
    same: Trial | None


def forecast_kernel(
    request: ForecastRequest, *, executors: Executors | None = None, forecaster: Forecaster | None = None
) -> ForecastResult:
    """Compile the kernels, forecast them in one call, and recommend what to do with each; runs none of them.

    `executors` keeps the device warm between calls; `forecaster` is used instead of the one that is named. Raises
    `UsageError` for a request that makes no sense, and `CandidateError` where no kernel can be read or the one to
    forecast against cannot be used.
    """
    if (request.kernel is None) == (not request.kernels):
        raise UsageError("give either a kernel or several kernels", hint="pass exactly one of kernel and kernels")
    given = [request.kernel] if request.kernel else request.kernels
    if request.target is not None and (request.place.device != "auto" or request.place.pool):
        raise UsageError(
            f"a forecast for {request.target} is made for that device, so that --device and --pool would do nothing",
            hint="leave them out, or leave --target out to forecast for the device",
        )
    candidates = _chosen(given, alone=request.kernel is not None)
    other = sessions.choose_candidate(request.against) if request.against else None
    if forecaster is None:
        model = sessions.make_model(request.model, request.base_url)
        forecaster = sessions.make_forecaster(request.forecaster or ("cascade" if model else "learned"), model)
    if forecaster is None:
        raise UsageError("a forecast needs a forecaster", hint="use learned, llm or cascade")
    with _opened(request, executors) as opened:
        start = time.perf_counter()
        candidates = _fitting(opened, candidates, alone=request.kernel is not None)
        if other is not None:
            sessions.check_language(other, opened.executor)
        wanted = {c.sha256: c for c in (*candidates, other) if isinstance(c, Candidate)}
        builds = _compiled(opened, list(wanted.values()), alone=request.kernel is not None)
        known, forecasts = _forecasts(opened, forecaster, wanted, builds, other)
        answers = {sha256: _answer(known, wanted[sha256], builds[sha256], f) for sha256, f in forecasts.items()}
        ranked = _ranked(given, candidates, builds, answers)
        result = _result(known, ranked, candidates, builds, answers)
    spent = sum((f.cost for f in forecasts.values()), Cost())
    return result.model_copy(
        update={
            "cost": Price.of(spent).model_copy(update={"seconds": time.perf_counter() - start}),
            "tiers": _tiers(list(forecasts.values())),
            "ranking": ranked if request.kernel is None else [],
        }
    )


@contextmanager
def _opened(request: ForecastRequest, executors: Executors | None) -> Generator[Session]:
    if request.target is None:
        with sessions.open_session(request.place, request.task, executors, inputs=request.inputs) as opened:
            yield opened
        return
    target = choose_target(request.target)
    task = sessions.load_task(request.task, request.place, inputs=request.inputs)
    with sessions.open_archive(request.place) as archive:
        kept = executors or Executors()
        try:
            yield Session(task, kept.compiler(request.place, target), archive)
        finally:
            if executors is None:
                kept.close()


def _chosen(kernels: Sequence[Kernel], *, alone: bool) -> list[Candidate | str]:
    """Read each kernel, with an error message in place of a bad one; raises `CandidateError` if none can be read."""
    return _each(kernels, sessions.choose_candidate, alone=alone)


def _fitting(opened: Session, candidates: Sequence[Candidate | str], *, alone: bool) -> list[Candidate | str]:
    """Put an error message in place of kernels that the device does not run; raises `CandidateError` if none fits."""

    def check(candidate: Candidate | str) -> Candidate | str:
        if isinstance(candidate, Candidate):
            sessions.check_language(candidate, opened.executor)
        return candidate

    return _each(candidates, check, alone=alone)


def _each(given: Sequence[Given], choose: Callable[[Given], Candidate | str], *, alone: bool) -> list[Candidate | str]:
    found: list[Candidate | str] = []
    for one in given:
        try:
            found.append(choose(one))
        except CandidateError as e:
            if alone:
                raise
            found.append(e.message)
    if not any(isinstance(c, Candidate) for c in found):
        raise CandidateError("none of the kernels can be forecast", hint=str(found[0]))
    return found


def _compiled(opened: Session, candidates: Sequence[Candidate], *, alone: bool) -> dict[str, Build]:
    def compiled(candidate: Candidate) -> Build:
        try:
            build = opened.executor.compile(opened.task, candidate)
            return with_evidence(opened.executor, opened.task, candidate, build)
        except CandidateError as e:
            if alone:
                raise
            return Build("compile_error", 0.0, log=f"error: {e}")

    with ThreadPoolExecutor(_threads(len(candidates)), thread_name_prefix="compile") as pool:
        return {c.sha256: build for c, build in zip(candidates, pool.map(compiled, candidates), strict=True)}


def _forecasts(
    opened: Session,
    forecaster: Forecaster,
    wanted: dict[str, Candidate],
    builds: dict[str, Build],
    other: Candidate | None,
) -> tuple[_Known, dict[str, Forecast]]:
    """Forecast all kernels that compile in one call; a measurement of the kernel to beat replaces its forecast."""
    task, target = opened.task, opened.executor.target
    trials = _with_evidence(opened, opened.archive.trials(task.sha256, target.name))
    programs, measured = recommendation.MeasuredPrograms(opened.executor, task, trials), None
    if other is not None:
        build = builds[other.sha256]
        if build.status != "ok":
            raise CandidateError(
                f"the kernel to forecast against does not compile: {trim(build.log, 600)}",
                hint="forecast it alone first, and pass one that compiles",
            )
        same = programs.find(other)
        measured = recommendation.as_forecast(same.measurement) if same else None
    subjects = [Subject(c, builds[k]) for k, c in wanted.items() if builds[k].status == "ok"]
    made = forecaster.forecast(task, target, subjects, trials) if subjects else []
    forecasts = {s.candidate.sha256: f for s, f in zip(subjects, made, strict=True)}
    for sha256, forecast in forecasts.items():
        opened.archive.add_cost(None, forecast.cost, f"forecast of {sha256[:10]}")
    anchor = None if other is None else measured or forecasts[other.sha256]
    best = programs.best()
    return _Known(opened, trials, other, anchor, measured is not None, best, programs), forecasts


def _with_evidence(opened: Session, trials: Sequence[Trial]) -> list[Trial]:
    """Add the evidence that measuring does not collect to measured modules, so that they compare with new ones."""

    def one(trial: Trial) -> Trial:
        candidate, build = trial.subject.candidate, trial.subject.build
        return replace(trial, subject=Subject(candidate, with_evidence(opened.executor, opened.task, candidate, build)))

    with ThreadPoolExecutor(_threads(len(trials)), thread_name_prefix="trace") as pool:
        return list(pool.map(one, trials))


def _threads(count: int) -> int:
    return max(1, min(MAX_THREADS, count, (os.cpu_count() or 2) - 1))


def _answer(known: _Known, candidate: Candidate, build: Build, forecast: Forecast) -> _Answer:
    subject, same = Subject(candidate, build), known.measured.find(candidate)
    if known.other is None or known.anchor is None:
        best = known.best
        ahead = best is not None and best.ratio > 1
        named = f"the best so far, {best}," if ahead else "the reference"
        judged = recommendation.judge(forecast, best.ratio if best and ahead else 1.0, named, same)
        return _Answer(subject, forecast, forecast, judged, same)
    over = compare.quotient(forecast, known.anchor)
    if known.measured.alike(candidate, known.other):
        judged = RivalForecast("skip", f"it is the same program as kernel {known.other.short}", 0.0)
        return _Answer(subject, forecast, recommendation.over_itself(over), judged, same)
    # Both must have been measured for the question to be settled.
    judged = recommendation.judge(over, 1.0, f"kernel {known.other.short}", same if known.anchor_measured else None)
    return _Answer(subject, forecast, over, judged, same)


def _ranked(
    given: Sequence[Kernel],
    candidates: Sequence[Candidate | str],
    builds: dict[str, Build],
    answers: dict[str, _Answer],
) -> list[RankedKernel]:
    """Return a line for each kernel: those with a forecast, the best first, then the others as given."""
    firsts: dict[str, int] = {}
    lines: list[RankedKernel] = []
    for position, (kernel, c) in enumerate(zip(given, candidates, strict=True), 1):
        line = RankedKernel(position=position, path=kernel.path or "")
        if isinstance(c, str):
            lines.append(line.model_copy(update={"problem": c}))
            continue
        line = line.model_copy(update={"kernel": KernelId.of(c), "status": builds[c.sha256].status})
        if c.sha256 in firsts:
            line = line.model_copy(update={"problem": f"it is the same kernel as number {firsts[c.sha256]}"})
        elif c.sha256 not in answers:
            line = line.model_copy(
                update={"recommendation": "skip", "problem": f"it does not compile: {_first_error(builds[c.sha256])}"}
            )
        firsts.setdefault(c.sha256, position)
        lines.append(line)
    open_ones = [(line, answers[line.kernel.sha256]) for line in lines if line.kernel and not line.problem]
    said = [answer.over_reference for _, answer in open_ones]
    order = compare.ranking(said)
    chances = compare.chances_best(said)
    placed = [
        open_ones[i][0].model_copy(
            update=_shown(open_ones[i][1])
            | {
                "value": compare.value(open_ones[i][1].forecast),
                "p_best": round(chances[i], 4),
                "p_faster_than": [0.5 if i == j else round(compare.chance_faster(said[i], said[j]), 4) for j in order],
            }
        )
        for i in order
    ]
    return [*placed, *(line for line in lines if line.problem)]


def _shown(answer: _Answer) -> dict[str, object]:
    """Return the fields that a kernel's line and the result of one kernel share."""
    return {
        "recommendation": answer.judged.advice,
        "reason": answer.judged.reason,
        "forecast": prediction_of(answer.forecast),
        "p_better": answer.judged.p_better,
        "already_measured": speedup_of(answer.same.measurement) if answer.same else None,
        "cost": Price.of(answer.over_reference.cost),
    }


def _result(
    known: _Known,
    ranked: Sequence[RankedKernel],
    candidates: Sequence[Candidate | str],
    builds: dict[str, Build],
    answers: dict[str, _Answer],
) -> ForecastResult:
    opened = known.opened
    first = ranked[0].kernel.sha256 if ranked[0].kernel and not ranked[0].problem else ""
    chosen = answers[first].subject if first else _broken(candidates, builds)
    found = ForecastResult(
        summary=f"Skip: the kernel does not compile ({chosen.build.status}). {_first_error(chosen.build)}".strip(),
        status=chosen.build.status,
        recommendation="skip",
        reason="it does not compile; the log says why",
        task=opened.task.name,
        device=Device.of(opened.executor.target),
        kernel=KernelId.of(chosen.candidate),
        anchor=known.other.sha256 if known.other else "reference",
        forecast=None,
        best_so_far=known.best,
        trials=len(known.trials),
        evidence=Facts.of(chosen.build.evidence),
        log=trim(chosen.build.log),
    )
    if chosen.build.status == "timeout":
        said = f"compiling it takes more than the {int(chosen.build.seconds)} s that a forecast waits"
        return found.model_copy(update={"summary": f"Skip: {said}.", "reason": f"{said}; a measurement waits longer"})
    if not first:
        return found
    answer = answers[first]
    used = recommendation.evidence_used(answer.subject, answer.over_reference, known.trials)
    said = _summary(known, answer) if len(ranked) == 1 else _ranking_summary(known, ranked)
    return found.model_copy(update=_shown(answer) | {"summary": said, "evidence_used": used})


def _summary(known: _Known, answer: _Answer) -> str:
    median, judged = median_of(answer.forecast), answer.judged
    over = f"kernel {known.other.short}" if known.other else "the reference"
    return (
        f"{judged.advice.capitalize()}: {judged.reason}. Forecast {median} (80 % interval) over {over} if correct:"
        f" {_basis(known, answer)}."
    )


def _ranking_summary(known: _Known, ranked: Sequence[RankedKernel]) -> str:
    best, rest = ranked[0], [r for r in ranked if r.problem]
    named = [f"{_name(r)} ({r.recommendation})" for r in ranked if not r.problem]
    median = best.forecast.median if best.forecast else ""
    over = f"kernel {known.other.short}" if known.other else "the reference"
    failed = f" {len(rest)} not ranked." if rest else ""
    if len(named) > 1 and len({str(r.forecast) for r in ranked if not r.problem}) == 1:
        return (
            f"The forecast cannot tell {len(named)} kernels apart: {median} (80 % interval) over {over} if correct, for"
            f" each. Measure one that you know and the one that you believe in: {', '.join(named)}.{failed}"
        )
    return (
        f"Most promising of {len(ranked)}: {_name(best)}, forecast {median} (80 % interval) over {over} if correct, the"
        f" best of these with {best.p_best or 0:.0%}. {(best.recommendation or 'skip').capitalize()} it: {best.reason}."
        f" Order: {', '.join(named)}.{failed}"
    )


def _name(line: RankedKernel) -> str:
    return Path(line.path).name or f"number {line.position}"


def _basis(known: _Known, answer: _Answer) -> str:
    count = len(known.trials)
    if count:
        return f"from {count} trial{'s' * (count != 1)} of this task on this device"
    first = (answer.over_reference.tiers or (answer.over_reference,))[0]
    prior = "the broad prior, because " if first.rationale.startswith("prior") else ""
    return f"{prior}nothing of this task has been measured on this device yet"


def _broken(candidates: Sequence[Candidate | str], builds: dict[str, Build]) -> Subject:
    candidate = next(c for c in candidates if isinstance(c, Candidate))
    return Subject(candidate, builds[candidate.sha256])


def _first_error(build: Build) -> str:
    return next((line for line in build.log.splitlines() if "error" in line.lower()), build.log.strip()[:200])


def _tiers(forecasts: Sequence[Forecast]) -> list[TierLine]:
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
