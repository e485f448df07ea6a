"""Optimise a task: propose, gate, forecast, decide, measure, record; or take up a run that was interrupted."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from forewarp.archive.pools.parquet import tasks_of
from forewarp.archive.rows import EventRow, RunRow
from forewarp.archive.store import Archive
from forewarp.core.budget import Spend
from forewarp.core.errors import UsageError
from forewarp.core.protocols import Executor, Forecaster, Proposer
from forewarp.core.values import Task
from forewarp.gpu_runner.formats.task import BUNDLED_POOL
from forewarp.search.events import Event
from forewarp.search.loop import Search
from forewarp.search.proposers.advice import seeds_on
from forewarp.search.settings import SearchSettings
from forewarp.tools import session as sessions
from forewarp.tools.parts import Place
from forewarp.tools.plan_proposal import proposing_plan
from forewarp.tools.proposer import from_label, label, make_proposer, own_label, own_name
from forewarp.tools.requests import ResumeRequest, SearchRequest
from forewarp.tools.run_report import SearchResult, report
from forewarp.tools.session import Executors

if TYPE_CHECKING:
    from forewarp.search.proposers.plans import Planner
    from forewarp.surrogate.models import LanguageModel
    from forewarp.surrogate.reference import ReferenceTime


@dataclass(frozen=True, slots=True)
class Own:
    """Parts that the caller made, used instead of those that a request names; None where the request decides.

    `executors` keeps devices warm between calls. A run that was given a proposer or a forecaster can only be resumed
    with one of the same name.
    """

    proposer: Proposer | None = None
    forecaster: Forecaster | None = None
    executors: Executors | None = None


NOTHING = Own()


@dataclass(frozen=True, slots=True)
class SearchJob:
    """A run in progress."""

    archive: Archive
    search: Search

    @property
    def run_id(self) -> str:
        return self.search.run_id

    def events(self) -> Generator[Event]:
        """Work on the run and yield its events; closing the generator before its end interrupts the run."""
        yield from self.search.events()

    def recorded(self, after: int = 0) -> list[EventRow]:
        """Return the run's events so far with a number above `after`, those of earlier processes too."""
        return self.archive.events(self.run_id, after)

    def spend(self) -> Spend:
        """Return what the run has spent, as last recorded in the archive."""
        return self.archive.spend(self.run_id)

    def stop(self) -> None:
        """Ask the run to end with the best so far; may be called from a signal handler."""
        self.search.stop()

    def result(self) -> SearchResult:
        return report(self.archive, self.run_id)


def search(
    request: SearchRequest, *, watch: Callable[[Event], None] = lambda _: None, own: Own = NOTHING
) -> SearchResult:
    """Run a whole optimisation; `watch` is called with each event."""
    with open_search(request, own) as job:
        for event in job.events():
            watch(event)
        return job.result()


@contextmanager
def open_search(request: SearchRequest, own: Own = NOTHING) -> Generator[SearchJob]:
    """Register a run; the work begins when its events are read."""
    settings, models = prepare(request, own)
    with sessions.open_session(request.place, request.task, own.executors, **request.options) as opened:
        executor, archive = opened.executor, opened.archive
        task = _with_seeds(opened.task, request, own, executor)
        # Rounds that keep all devices busy, where the request leaves their size open.
        if request.measure_per_round is None:
            settings = replace(settings, measure_per_round=max(settings.measure_per_round, executor.devices))
        if request.proposals is None:
            settings = replace(settings, proposals_per_round=max(settings.proposals_per_round, 2 * executor.devices))
        forecaster, planner = forecasting(own, models, request.forecaster, settings.plans, archive, task, executor)
        proposer = own.proposer or make_proposer(executor, task, models.writers, planner=planner)
        yield SearchJob(archive, Search.start(archive, task, executor, proposer, forecaster, settings))


def _with_seeds(task: Task, request: SearchRequest, own: Own, executor: Executor) -> Task:
    """Return the task with the seeds that a run begins with; raises `UsageError` where it needs one and has none."""
    begins = own.proposer is None and request.place.device != "replay"
    kind = executor.target.kind
    with proposing_plan(task, request.place):
        if not request.seed_kernels and request.place.device != "replay":
            task = replace(task, seeds=seeds_on(task, executor.target))
        return sessions.with_seeds(
            *(task, kind, request.seed_kernels, request.language),
            make=sessions.seed_maker(kind, executor) if begins else None,
            needed=begins and not request.model,
        )


def prepare(request: SearchRequest, own: Own = NOTHING) -> tuple[SearchSettings, Models]:
    """Return a request's settings and models; raises `UsageError` and `ModelError`."""
    settings = settings_of(request, own)
    models = models_of(names_of(request.model), request.base_url, request.forecast_model)
    if request.budget.dollars is not None:
        for model in (*models.writers, *([models.forecaster] if models.forecaster else [])):
            sessions.check_price(model)
    if own.forecaster is None and request.forecaster in ("llm", "cascade") and models.forecaster is None:
        sessions.check_forecaster(request.forecaster, None)
    return settings, models


def forecasting(
    own: Own, models: Models, name: str, plans: int, archive: Archive, task: Task, executor: Executor
) -> tuple[Forecaster | None, Planner | None]:
    """Return a run's forecaster and planner; the reference's time, which both know, is found out for them alone."""
    needed = plans or (own.forecaster is None and name != "none")
    references = sessions.reference_time(archive, task, executor, at_hand=True) if needed else {}
    forecaster = own.forecaster or sessions.make_forecaster(
        name, models.forecaster, references=references, measures=True
    )
    return forecaster, models.planner(plans, references)


def settings_of(request: SearchRequest, own: Own = NOTHING) -> SearchSettings:
    """Return the settings of a run; raises `UsageError` for what makes no sense together."""
    _check(request, own)
    models = names_of(request.model)
    replaying = request.place.device == "replay"
    forecaster = "" if request.forecaster == "none" else request.forecaster
    # The proposer's label names the forecasting model, too, unless that is another one or the proposer is the caller's.
    oracle = request.forecast_model or (models[0] if models and own.proposer else "")
    if oracle:
        forecaster = f"{forecaster} {oracle}"
    proposer = label(models, request.base_url, replaying=replaying)
    chosen = SearchSettings(
        seed=request.seed,
        budget=request.budget.budget(),
        confirm=request.confirm,
        holdout=request.holdout,
        plans=request.plans,
        proposer=own_label(own.proposer.name) if own.proposer else proposer,
        forecaster=own_label(own.forecaster.name) if own.forecaster else forecaster,
    )
    if models and own.proposer is None:
        # A model is asked for several programs at once, and its answer takes longer than a measurement.
        chosen = replace(chosen, proposals_per_round=12, measure_per_round=3)
    if request.forecaster == "llm" and own.forecaster is None:
        # Each forecast costs seconds and cents: fewer candidates a round, and none asked about again.
        chosen = replace(chosen, proposals_per_round=8, reconsider=0)
    given = {
        "audit": request.audit,
        "explore": request.explore,
        "proposals_per_round": request.proposals,
        "measure_per_round": request.measure_per_round,
        "patience": request.patience,
    }
    chosen = replace(chosen, **{name: value for name, value in given.items() if value is not None})
    chosen.check()
    return chosen


def _check(request: SearchRequest, own: Own) -> None:
    """Raise `UsageError` for a part of the request that would do nothing."""
    if request.forecaster == "none" and own.forecaster is None:
        idle = [n for n in ("audit", "explore", "measure_per_round", "patience") if getattr(request, n) is not None]
        if idle:
            raise UsageError(
                f"without a forecaster everything is measured, so that {' and '.join(idle)} would do nothing",
                hint="leave that out, or choose a forecaster",
            )
    asks = own.forecaster is None and request.forecaster in ("llm", "cascade")
    if request.forecast_model is not None and not asks:
        raise UsageError(
            "the model that forecasts would never be asked",
            hint="pass --forecaster cascade or llm with --forecast-model, or leave that out",
        )
    if request.plans and (own.proposer is not None or not request.model):
        raise UsageError("no language model writes, so that no plan would be made", hint="leave --plans out")
    if own.proposer is not None and request.model and not asks:
        raise UsageError("with a proposer of one's own the model would never be asked", hint="leave the model out")
    capped = [n for n in ("dollars", "tokens") if getattr(request.budget, n) is not None]
    if capped and not (request.model or request.forecast_model or own.proposer or own.forecaster):
        raise UsageError(
            f"no language model is asked, so that a cap on {' and '.join(capped)} would never be reached",
            hint="leave that out, or pass --model anthropic:NAME or openai:NAME",
        )


@dataclass(frozen=True, slots=True)
class Models:
    """The language models of a run: those that write candidates, and the one that forecasts."""

    writers: list[LanguageModel]
    forecaster: LanguageModel | None

    def planner(self, plans: int, references: Mapping[str, ReferenceTime]) -> Planner | None:
        """Return what has the writers plan before they write; None where they are not to, or nobody writes."""
        if not plans or self.forecaster is None:
            return None
        from forewarp.search.proposers.plans import Planner
        from forewarp.surrogate.plans import PlanForecaster

        return Planner(PlanForecaster(self.forecaster, references), plans)


@contextmanager
def resume_search(request: ResumeRequest, own: Own = NOTHING) -> Generator[SearchJob]:
    """Take up a run that was interrupted, failed or killed.

    Raises `UsageError` also where it was given a proposer or a forecaster that is not given again.
    """
    with sessions.existing_archive(request.place, request.run_id) as archive:
        row = archive.run(request.run_id)
    settings: Mapping[str, Any] = row.settings
    proposes, forecasts = str(settings.get("proposer", "")), str(settings.get("forecaster") or "none")
    _check_own(row.id, "proposer", proposes, own.proposer)
    _check_own(row.id, "forecaster", forecasts, own.forecaster)
    recorded, recorded_url, replayed = ([], None, False) if own.proposer else from_label(proposes)
    kind, _, forecast_model = ("none", "", "") if own.forecaster else forecasts.partition(" ")
    models = models_of(names_of(request.model) or recorded, request.base_url or recorded_url, forecast_model or None)
    with sessions.open_session(_place_of(row, request.place, replayed=replayed), row.task, own.executors) as opened:
        plans = int(settings.get("plans", 0))
        forecaster, planner = forecasting(own, models, kind, plans, opened.archive, row.task, opened.executor)
        proposer = own.proposer or make_proposer(opened.executor, row.task, models.writers, planner=planner)
        search = Search.resume(opened.archive, row.id, opened.executor, proposer, forecaster)
        yield SearchJob(opened.archive, search)


def _check_own(run: str, part: str, recorded: str, given: Proposer | Forecaster | None) -> None:
    """Raise `UsageError` where a part that the caller made is missing, or is given to a run that began with another."""
    name = own_name(recorded)
    if name is None and given is not None:
        raise UsageError(
            f"run {run} began with {part} {recorded}, not with {given.name}", hint="resume it without one of your own"
        )
    if name is not None and given is None:
        raise UsageError(
            f"run {run} began with {part} {name}, which its caller made",
            hint=f"resume it from Python with the same: forewarp.resume({run!r}, {part}=…)",
        )
    if given is not None and name != given.name:
        raise UsageError(f"run {run} began with {part} {name}, not with {given.name}", hint="resume it with the same")


def _place_of(row: RunRow, given: Place, *, replayed: bool) -> Place:
    """Return where a run goes on: where it was, unless the request says otherwise."""
    device = "replay" if replayed else row.target.kind if given.device == "auto" else given.device
    pool = given.pool
    if replayed and not pool:
        if row.task.sha256 not in tasks_of(BUNDLED_POOL):
            raise UsageError(f"run {row.id} replayed a pool", hint="pass --pool PATH of that pool again")
        pool = str(BUNDLED_POOL)
    return given.model_copy(update={"device": device, "pool": pool})


def models_of(names: Sequence[str], base_url: str | None, forecasts: str | None) -> Models:
    """Return the models by their names; raises `ModelError`."""
    wanted = dict.fromkeys((*names, forecasts) if forecasts else names)
    made: dict[str, LanguageModel] = {}
    for name in wanted or [None]:
        served = len(wanted) < 2 or (name or "").startswith("openai:")
        model = sessions.make_model(name, base_url if served else None)
        if name is not None and model is not None:
            made[name] = model
    writers = [made[name] for name in names]
    return Models(writers, made[forecasts] if forecasts else writers[0] if writers else None)


def names_of(model: str | list[str] | None) -> list[str]:
    """Return the models of a request, each once."""
    return [] if model is None else [model] if isinstance(model, str) else list(dict.fromkeys(model))
