"""Judge forecasters by measured candidates: every figure with its interval, and two forecasters side by side."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from forewarp.archive.forecasts import read_forecasts, write_forecasts
from forewarp.archive.pools.parquet import rows_of
from forewarp.archive.rows import RecordedRow
from forewarp.core.errors import UsageError, did_you_mean
from forewarp.core.protocols import Forecaster
from forewarp.surrogate import baselines, pooling
from forewarp.surrogate.calibration import shipped
from forewarp.surrogate.evaluation import backtest, scorecard
from forewarp.surrogate.evaluation.backtest import Answers, Group, Progress
from forewarp.surrogate.evaluation.resampling import Resampled, cluster_draws
from forewarp.tools import session
from forewarp.tools.parts import Part, Place
from forewarp.tools.requests import EvaluateRequest
from forewarp.tools.wording import counted

POOLED = "pooled"
FORECASTERS = ("learned", "llm", "cascade", POOLED, "uniform", "climatology")
OF_TASKS = ("exact", "within_one", "pairwise", "spearman", "crps", "error", "recovery_1", "recovery_10", "recovery_20")

_Scores = dict[str, tuple[scorecard.Measure, Resampled]]


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


Finite = Annotated[float | None, BeforeValidator(_finite)]


class Figure(Part):
    """A figure with its 95 % interval over tasks; null where there is none."""

    value: Finite
    low: Finite = None
    high: Finite = None


class MeasureLine(Part):
    """Name and title of a figure, and which way is better."""

    name: str
    title: str
    better: Literal["higher", "lower", ""]


class TaskScores(Part):
    """One forecaster on one task."""

    task: str
    target: str
    family: str
    rows: int
    valid: int
    figures: dict[str, Finite]


class Scores(Part):
    """One forecaster: all its figures, by the names of `measures`, and those of each task."""

    name: str
    figures: dict[str, Figure]
    tasks: list[TaskScores]
    seconds: float | None = Field(description="What asking took; null where it is not known.")
    tokens: int
    dollars: float | None = Field(description="Null where it is not known.")


class FamilyDifference(Part):
    """CRPS of two forecasters on the valid candidates of a family; the interval resamples programs, paired."""

    family: str
    rows: int
    crps: Finite = Field(description="Of the first.")
    difference: Figure = Field(description="First minus second; below zero the first is better.")


class Difference(Part):
    """`first` minus `second` on the same rows; the intervals are of paired resamples."""

    first: str
    second: str
    figures: dict[str, Figure]
    families: list[FamilyDifference] = Field(default_factory=list[FamilyDifference])


class EvaluateResult(Part):
    """Scores of forecasters, all judged by the same rows."""

    summary: str
    rows: int
    valid: int
    task_count: int
    split: str
    history: int
    anchors: bool
    seed: int
    resamples: int
    margin: float
    level: float = 0.95
    measures: list[MeasureLine]
    forecasters: list[Scores]
    differences: list[Difference]
    left_out: dict[str, int] = Field(description="Rows that nobody was judged by, by reason.")
    files: list[str] = Field(default_factory=list[str], description="Files that were written.")


def evaluate(request: EvaluateRequest, progress: Progress | None = None) -> EvaluateResult:
    """Ask the forecasters, match their answers to measurements, score and compare them.

    Raises `UsageError`, `ArchiveError`, or what a forecaster raises.
    """
    _check(request)
    rows = [row for pool in request.pools for row in rows_of(Path(pool).expanduser()) if _wanted(row, request)]
    plan = backtest.plan(rows, request.history, request.seed)
    cases = [case for group in plan.groups for case in group.cases]
    if request.pools and not cases:
        held = {row.task.name for pool in request.pools for row in rows_of(Path(pool).expanduser())}
        pools = ", ".join(request.pools)
        if unknown := [name for name in request.tasks if name not in held]:
            hint = f"{did_you_mean(unknown[0], held)}it has {', '.join(sorted(held)) or 'none'}"
            raise UsageError(f"no task of {pools} is called {unknown[0]!r}", hint=hint)
        raise UsageError(
            f"no row of the split {request.split!r} is left in {pools}",
            hint="choose another split with --split, or all; a smaller --history; or other tasks",
        )
    answers = [backtest.run(f, plan.groups, progress) for f in _forecasters(request, rows, plan.groups)]
    answers += [_planned(request)] if request.what == "plans" else []
    records = [r for path in request.recorded for r in read_forecasts(Path(path).expanduser())]
    records = [r for r in records if not request.tasks or r.task in request.tasks]
    recorded = backtest.recorded(records, cases if request.pools else None)
    shared = backtest.common([*answers, *recorded])
    if POOLED in request.forecasters:
        shared = [*_pooled(shared, recorded), *shared]
    if not shared or not shared[0].rows:
        raise UsageError(
            "there is no candidate that every forecaster answered",
            hint="pass forecasters, or records of the same tasks and kernels as the pool's",
        )
    files = _keep(shared, request.keep)
    left_out = dict(plan.left_out)
    unanswered = (len(cases) or max(len(a.rows) for a in [*answers, *recorded])) - len(shared[0].rows)
    if unanswered:
        left_out["not answered by every forecaster"] = unanswered
    return _result(request, shared, left_out, files)


def _planned(request: EvaluateRequest) -> Answers:
    """Return an archive's forecasts of plans with what came of them; raises `UsageError` where there are none."""
    with session.existing_archive(Place(archive=request.archive)) as archive:
        plans = [p for p in archive.plans() if not request.tasks or p.task in request.tasks]
    if not plans:
        raise UsageError(
            "no kernel of this archive was written from a plan and measured",
            hint="run forewarp optimize TASK --model NAME --plans 3 first, or name another file with --archive",
        )
    return backtest.of_plans(plans)


def _check(request: EvaluateRequest) -> None:
    if request.what == "plans" and (request.pools or request.forecasters or request.recorded):
        raise UsageError(
            "plans are judged as an archive holds them", hint="leave out pools, forecasters and --recorded"
        )
    if request.what != "plans" and not request.pools and not request.recorded:
        raise UsageError(
            "there is nothing to judge by", hint="pass a pool, as `pool` in a clone, or forecasts with --recorded"
        )
    if request.forecasters and not request.pools:
        raise UsageError("forecasters need a pool to be asked about", hint="pass a pool of measured candidates")
    unknown = [f for f in request.forecasters if f not in FORECASTERS]
    if unknown:
        raise UsageError(f"there is no forecaster called {unknown[0]!r}", hint=f"name one of {', '.join(FORECASTERS)}")
    if len(request.model) > 1 and "cascade" in request.forecasters:
        raise UsageError("a cascade asks one model", hint="compare models by the llm forecaster: --forecasters llm")
    if POOLED in request.forecasters and not ({"learned"} <= set(request.forecasters) and request.recorded):
        raise UsageError(
            "pooled are the learned forecaster and recorded answers",
            hint="pass --forecasters pooled,learned and --recorded FILE of a language model's answers",
        )
    twice = {f for f in (*request.forecasters, *request.model) if (*request.forecasters, *request.model).count(f) > 1}
    if twice:
        raise UsageError(f"{', '.join(sorted(twice))} is named twice", hint="name each forecaster and model once")


def _wanted(row: RecordedRow, request: EvaluateRequest) -> bool:
    split = request.split == "all" or row.origin.split == request.split
    return split and (not request.tasks or row.task.name in request.tasks)


def _forecasters(
    request: EvaluateRequest, rows: Sequence[RecordedRow], groups: Sequence[Group]
) -> Iterable[Forecaster]:
    models = [session.make_model(name, request.base_url) for name in request.model or (None,)]
    references = backtest.references(groups, rows) if request.anchors else None
    for name in (f for f in request.forecasters if f != POOLED):
        if name == "uniform":
            yield baselines.uniform()
        elif name == "climatology":
            yield _climatology(request)
        else:
            for model in models if name == "llm" else models[:1]:
                forecaster = session.make_forecaster(name, model, references=references)
                if forecaster is not None:
                    yield forecaster


def _pooled(shared: Sequence[Answers], recorded: Sequence[Answers]) -> list[Answers]:
    """Return the pool of the learned forecaster and a model's recorded answers, and its member."""
    if len(recorded) != 1:
        raise UsageError(
            f"pooled takes one forecaster's recorded answers, and the files hold {len(recorded)}",
            hint="write the answers of one forecaster under one condition to a file of their own",
        )
    learned = next(a for a in shared if a.name == "learned")
    return pooled(learned, next(a for a in shared if a.name == recorded[0].name))


def pooled(learned: Answers, llm: Answers) -> list[Answers]:
    """Return both forecasters' answers pooled as a cascade does, and the model's as corrected for that."""
    corrected = [replace(r, forecast=shipped("llm").apply(r.forecast)) for r in llm.rows]
    together = [
        replace(b, forecast=pooling.pool([("learned", a.forecast), ("llm", b.forecast)], pooling.shipped(), POOLED))
        for a, b in zip(learned.rows, corrected, strict=True)
    ]
    return [
        replace(llm, name=POOLED, rows=tuple(together)),
        replace(llm, name=f"{llm.name}, corrected", rows=tuple(corrected)),
    ]


def _climatology(request: EvaluateRequest) -> Forecaster:
    places = [request.train] if request.train else request.pools
    rows = (row for place in places for row in rows_of(Path(place).expanduser()))
    compiled = [r for r in rows if r.build.status == "ok" and (request.train or r.origin.split == "train")]
    if not compiled:
        raise UsageError("climatology needs measurements to count", hint="pass a pool of the train split with --train")
    return baselines.climatology(r.measurement for r in compiled)


def _keep(answers: Sequence[Answers], path: str | None) -> list[str]:
    if path is None:
        return []
    write_forecasts((r for a in answers for r in backtest.as_recorded(a)), Path(path).expanduser())
    return [path]


def _result(
    request: EvaluateRequest, answers: Sequence[Answers], left_out: Mapping[str, int], files: list[str]
) -> EvaluateResult:
    names = [b.task for b in scorecard.blocks(answers[0])]
    draws = cluster_draws(names, request.resamples, request.seed)
    scored = [scorecard.score(a, draws, request.margin) for a in answers]
    forecasters = [_scores(a, s, request.margin) for a, s in zip(answers, scored, strict=True)]
    differences = [
        Difference(
            first=answers[0].name,
            second=a.name,
            figures={n: Figure.of(r.minus(other[n][1]).estimate()) for n, (_, r) in scored[0].items()},
            families=[
                FamilyDifference.of(f, difference=Figure.of(f.difference.estimate()))
                for f in scorecard.by_family(answers[0], a, request.resamples, request.seed)
            ],
        )
        for a, other in zip(answers[1:], scored[1:], strict=True)
    ]
    rows, split = (
        answers[0].rows,
        request.split if request.pools else "plans" if request.what == "plans" else "recorded",
    )
    return EvaluateResult.of(
        request,
        summary=_summary(forecasters, len(rows), len(set(names)), split) + _against_members(differences),
        rows=len(rows),
        valid=sum(r.case.speedup is not None for r in rows),
        task_count=len(set(names)),
        split=split,
        measures=[MeasureLine.of(m, name=n) for n, (m, _) in scored[0].items()],
        forecasters=forecasters,
        differences=differences,
        left_out=left_out,
        files=files,
    )


def _scores(answers: Answers, scored: _Scores, margin: float) -> Scores:
    found = scorecard.blocks(answers)
    asked = answers.milliseconds
    return Scores(
        name=answers.name,
        figures={name: Figure.of(r.estimate()) for name, (_, r) in scored.items()},
        tasks=[
            TaskScores.of(b, valid=int(b.valid.sum()), figures={name: figures[name] for name in OF_TASKS})
            for b, figures in scorecard.by_task(answers, margin)
        ],
        seconds=sum(asked.get((b.task, b.target), 0.0) * b.rows for b in found) / 1e3 if asked else None,
        tokens=answers.cost.input_tokens + answers.cost.output_tokens,
        dollars=answers.cost.dollars,
    )


def _summary(found: Sequence[Scores], rows: int, tasks: int, split: str) -> str:
    """Summarise each forecaster: its accuracy, ranking and calibration, and what measuring its top 10 % finds."""

    def said(scores: Scores, name: str, form: str = ".2f") -> str:
        value = scores.figures[name].value
        return "unknown" if value is None else format(value, form).replace("%", " %")

    each = [
        f"{s.name}: ±1 bin {said(s, 'within_one')}, Spearman {said(s, 'spearman')}, CRPS {said(s, 'crps', '.3f')}, "
        f"ECE {said(s, 'ece', '.3f')}, {said(s, 'recovery_10', '.0%')} of the best speed-up in the top 10 %"
        for s in found
    ]
    return f"{counted(rows, 'candidate')} of {counted(tasks, 'task')} ({split}). {'; '.join(each)}."


def _against_members(differences: Sequence[Difference]) -> str:
    """Say in how many families a pool is worse than a member of it, by an interval; "" where nothing is pooled."""
    if not differences or differences[0].first != POOLED:
        return ""
    families = [f.family for f in differences[0].families]
    worse = {f.family for d in differences for f in d.families if (f.difference.low or 0.0) > 0}
    named = f" ({', '.join(sorted(worse))})" if worse else ""
    return f" By CRPS, the pool is worse than a member of it in {len(worse)} of {len(families)} families{named}."
