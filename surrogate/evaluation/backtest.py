"""Evaluation of forecasters: the candidates to ask about, and each forecaster's answers next to their outcomes."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from forewarp.archive.forecasts import RecordedForecast
from forewarp.archive.rows import PlanOutcome, RecordedRow
from forewarp.core import bins
from forewarp.core.protocols import Forecaster, Subject, Trial
from forewarp.core.values import REFERENCE, Candidate, Cost, Forecast, Measurement, Target, Task
from forewarp.inspection.features.features import program_of
from forewarp.surrogate.asking import ask
from forewarp.surrogate.questions import reference_times
from forewarp.surrogate.reference import ReferenceTime

Progress = Callable[[str, int, int], None]
"""Progress callback, given the forecaster's name, the number of tasks done, and their total."""

ForecastKey = tuple[str, str, str]

_FEWEST_DIGITS = 8


@dataclass(frozen=True, slots=True)
class Case:
    """A measured candidate that forecasters are asked about.

    `speedup` is over the reference, None if not valid or believed. `incumbent` is the best known before the question:
    that of the trials that were shown, at least 1.
    """

    task: str
    target: str
    family: str
    kernel: str
    program: str
    language: str
    speedup: float | None
    low: float | None = None
    high: float | None = None
    incumbent: float = 1.0

    @property
    def key(self) -> ForecastKey:
        return self.task, self.target, self.kernel


@dataclass(frozen=True, slots=True)
class AnsweredCase:
    """A case with a forecaster's answer after so many trials; no `validity` where it never said how likely that is."""

    case: Case
    forecast: Forecast
    trials: int = 0
    validity: bool = True


@dataclass(frozen=True, slots=True)
class Group:
    """One task on one target: the trials that are shown, and the subjects that are asked about with their outcomes."""

    task: Task
    target: Target
    trials: tuple[Trial, ...]
    subjects: tuple[Subject, ...]
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """Questions of an evaluation. `left_out` counts the rows that are not asked about, by reason."""

    groups: tuple[Group, ...]
    left_out: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers of one forecaster. `milliseconds` holds the time per candidate by task and target, where it is known."""

    name: str
    rows: tuple[AnsweredCase, ...]
    milliseconds: Mapping[tuple[str, str], float]
    cost: Cost


def plan(rows: Iterable[RecordedRow], history: int = 0, seed: int = 0) -> EvaluationPlan:
    """Return the questions about the rows of a pool, task by task.

    Left out is what is against another kernel, does not compile, or was measured again. Of each task `history` rows,
    drawn by `seed` from its own alone, are shown as measured trials.
    """
    left_out: Counter[str] = Counter()
    grouped: dict[tuple[str, str], dict[str, RecordedRow]] = {}
    for row in rows:
        members = grouped.setdefault((row.task.sha256, row.target.name), {})
        kernel = row.candidate.sha256
        if row.measurement.anchor != REFERENCE:
            left_out["against another kernel than the reference"] += 1
        elif row.build.status != "ok":
            left_out["that do not compile"] += 1
        elif kernel in members:
            left_out["measured a second time"] += 1
        else:
            members[kernel] = row
    groups: list[Group] = []
    for (task, target), members in grouped.items():
        ordered = [members[kernel] for kernel in sorted(members)]
        shown = min(history, len(ordered))
        random.Random(f"{seed} {task} {target}").shuffle(ordered)
        if shown:
            left_out["shown as trials"] += shown
        if len(ordered) > shown:
            groups.append(group(ordered[:shown], ordered[shown:]))
    return EvaluationPlan(tuple(groups), dict(left_out))


def references(groups: Sequence[Group], rows: Iterable[RecordedRow]) -> dict[str, ReferenceTime]:
    """Return the references' measured times by task sha256: medians over rows, by workload."""
    asked = {(g.task.sha256, g.target.name) for g in groups}
    found: dict[str, list[Measurement]] = {}
    for row in rows:
        if row.measurement.anchor == REFERENCE and (row.task.sha256, row.target.name) in asked:
            found.setdefault(row.task.sha256, []).append(row.measurement)
    return {task: ReferenceTime(times) for task, each in found.items() if (times := reference_times(each))}


def run(forecaster: Forecaster, groups: Sequence[Group], progress: Progress | None = None) -> Answers:
    """Ask one forecaster about every group, a task at a time, and time it."""
    rows: list[AnsweredCase] = []
    milliseconds: dict[tuple[str, str], float] = {}
    for done, group in enumerate(groups):
        if progress is not None:
            progress(forecaster.name, done, len(groups))
        start = time.perf_counter()
        forecasts = ask(forecaster, group.task, group.target, group.subjects, group.trials)
        seconds = time.perf_counter() - start
        milliseconds[group.task.name, group.target.name] = 1e3 * seconds / len(group.subjects)
        rows += [AnsweredCase(c, f, len(group.trials)) for c, f in zip(group.cases, forecasts, strict=True)]
    return Answers(forecaster.name, tuple(rows), milliseconds, sum((r.forecast.cost for r in rows), Cost()))


def recorded(forecasts: Iterable[RecordedForecast], cases: Sequence[Case] | None = None) -> list[Answers]:
    """Return recorded forecasts as answers, one for each forecaster and condition that the record names.

    They are matched with `cases` by task and kernel's digits; without, the record's own outcomes count, which are of
    valid candidates only. Repeated forecasts are averaged, unreadable ones uniform. A `comparison` about several
    kernels is a condition.
    """
    records = list(forecasts)
    conditions = _conditions(records)
    repeats: dict[str, dict[ForecastKey, list[RecordedForecast]]] = {}
    outcomes: dict[ForecastKey, Case] = {}
    by_task: dict[str, dict[str, Case]] = {}
    for case in cases or ():
        by_task.setdefault(case.task, {})[case.kernel] = case
    for forecast in records:
        case = _own_case(forecast) if cases is None else _matched(forecast, by_task)
        if case is not None:
            outcomes[case.key] = case
            shared = forecast.comparison in conditions
            name = f"{forecast.forecaster} {forecast.comparison}" if shared else forecast.forecaster
            repeats.setdefault(name, {}).setdefault(case.key, []).append(forecast)
    return [_answers(name, by_case, outcomes, judged=cases is not None) for name, by_case in repeats.items()]


def common(answers: Sequence[Answers]) -> list[Answers]:
    """Return the answers to the questions that every forecaster answered, in one order, with the same outcomes."""
    if not answers:
        return []
    keys = set[ForecastKey].intersection(*({r.case.key for r in a.rows} for a in answers))
    order = [r.case for r in answers[0].rows if r.case.key in keys]
    same: list[Answers] = []
    for one in answers:
        rows = {r.case.key: r for r in one.rows}
        same.append(replace(one, rows=tuple(replace(rows[c.key], case=c) for c in order)))
    return same


def of_plans(outcomes: Iterable[PlanOutcome]) -> Answers:
    """Return the forecasts of plans as answers about the kernels that were written from them; repeats count once."""
    rows: dict[ForecastKey, AnsweredCase] = {}
    for o in outcomes:
        case = _case(o.task, o.target, o.family, o.candidate, o.measurement)
        rows.setdefault(case.key, AnsweredCase(case, o.rated.forecast))
    return Answers("plans", tuple(rows.values()), {}, Cost())


def as_recorded(answers: Answers) -> list[RecordedForecast]:
    """Return answers as records, from which `recorded` makes the same answers again."""
    return [
        RecordedForecast(
            source_dataset="forewarp",
            comparison="",
            task=r.case.task,
            kernel=r.case.kernel,
            anchor=REFERENCE,
            forecaster=answers.name,
            repeat=0,
            probabilities=r.forecast.probabilities,
            raw_sum=r.forecast.raw_sum,
            parse_failed=False,
            parse_error="",
            input_tokens=r.forecast.cost.input_tokens,
            output_tokens=r.forecast.cost.output_tokens,
            seconds=r.forecast.cost.seconds,
            speedup=r.case.speedup,
            p_valid=r.forecast.p_valid if r.validity else None,
            mean_log2=r.forecast.mean_log2,
            sd_log2=r.forecast.sd_log2,
        )
        for r in answers.rows
    ]


def group(shown: Sequence[RecordedRow], asked: Sequence[RecordedRow]) -> Group:
    """Return the questions about rows of one task on one target, with others shown as measured trials."""
    trials = tuple(Trial(Subject(r.candidate, r.build), r.measurement) for r in shown)
    best = max([1.0, *(r.measurement.believed or 0.0 for r in shown)])
    first = asked[0]
    subjects = tuple(Subject(r.candidate, r.build) for r in asked)
    cases = (
        _case(r.task.name, r.target.name, r.origin.family or r.task.family, r.candidate, r.measurement, best)
        for r in asked
    )
    return Group(first.task, first.target, trials, subjects, tuple(cases))


def _case(
    task: str, target: str, family: str, candidate: Candidate, found: Measurement, incumbent: float = 1.0
) -> Case:
    good = found.believed is not None
    return Case(
        task=task,
        target=target,
        family=family,
        kernel=candidate.sha256,
        program=program_of(candidate),
        language=candidate.language,
        speedup=found.believed,
        low=found.low if good else None,
        high=found.high if good else None,
        incumbent=incumbent,
    )


def _matched(forecast: RecordedForecast, cases: Mapping[str, Mapping[str, Case]]) -> Case | None:
    """Return the case that a record is about, of those by task and kernel."""
    kernels = cases.get(forecast.task, {})
    exact = kernels.get(forecast.kernel)
    if exact is not None or len(forecast.kernel) < _FEWEST_DIGITS:
        return exact
    fits = [c for kernel, c in kernels.items() if kernel.startswith(forecast.kernel)]
    return fits[0] if len(fits) == 1 else None


def _conditions(records: Sequence[RecordedForecast]) -> frozenset[str]:
    kernels: dict[str, set[str]] = {}
    for record in records:
        kernels.setdefault(record.comparison, set()).add(record.kernel)
    return frozenset(name for name, asked in kernels.items() if name and len(asked) > 1)


def _own_case(forecast: RecordedForecast) -> Case | None:
    if not forecast.speedup:
        return None
    return Case(forecast.task, "", "", forecast.kernel, "", "", forecast.speedup)


def _answers(
    name: str,
    by_case: Mapping[ForecastKey, list[RecordedForecast]],
    outcomes: Mapping[ForecastKey, Case],
    *,
    judged: bool,
) -> Answers:
    rows = tuple(_combined(name, outcomes[key], repeats, judged) for key, repeats in by_case.items())
    spent: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row.forecast.cost.seconds > 0:
            spent.setdefault((row.case.task, row.case.target), []).append(1e3 * row.forecast.cost.seconds)
    milliseconds = {key: sum(each) / len(each) for key, each in spent.items()}
    return Answers(name, rows, milliseconds, sum((r.forecast.cost for r in rows), Cost()))


def _combined(name: str, case: Case, repeats: Sequence[RecordedForecast], judged: bool) -> AnsweredCase:
    """Return the mean of repeated forecasts; finer moments than the bins are kept where there is but one."""
    even = (1.0 / bins.COUNT,) * bins.COUNT
    each = [r.probabilities or even for r in repeats]
    said = [r.p_valid for r in repeats if r.p_valid is not None and judged]
    only = repeats[0] if len(repeats) == 1 else None
    cost = Cost(
        sum(r.seconds or 0.0 for r in repeats),
        sum(r.input_tokens or 0 for r in repeats),
        sum(r.output_tokens or 0 for r in repeats),
        None,
    )
    forecast = Forecast(
        bins.normalise([sum(p[k] for p in each) for k in range(bins.COUNT)]),
        sum(said) / len(said) if said else 1.0,
        name,
        cost=cost,
        mean_log2=only.mean_log2 if only else None,
        sd_log2=only.sd_log2 if only else None,
    )
    return AnsweredCase(case, forecast, validity=bool(said))
