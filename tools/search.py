"""Optimise a task: propose, gate, forecast, decide, measure, record, until the budget is spent."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from forewarp.archive.pools import tasks_of
from forewarp.archive.rows import EventRow
from forewarp.archive.store import Archive, default_path
from forewarp.core.errors import UsageError
from forewarp.core.values import DeviceKind, Spend, Task
from forewarp.gpu_runner import devices
from forewarp.gpu_runner.formats.task import BUNDLED_POOL
from forewarp.search.events import Event
from forewarp.search.loop import Search
from forewarp.search.settings import SearchSettings
from forewarp.tools import session as sessions
from forewarp.tools.estimate import Dollars, Estimate, estimate
from forewarp.tools.export import DropIn, drop_in
from forewarp.tools.parts import Amounts, Part, Place
from forewarp.tools.proposer import from_label, label, make_proposer
from forewarp.tools.run_report import SearchResult, report

if TYPE_CHECKING:
    from forewarp.surrogate.models import LanguageModel
    from forewarp.tools.run_figures import RunFigures

DEFAULT_BUDGET = 24


class SearchRequest(Part):
    """What to optimise, where, and what it may cost."""

    task: str = Field(description="Bundled task, task folder or KernelBench file.")
    place: Place = Place()
    budget: Amounts = Amounts(measurements=DEFAULT_BUDGET)
    seed: int = 0
    forecaster: Literal["learned", "llm", "cascade", "none"] = "learned"
    model: str | None = Field(default=None, description="Language model that proposes kernels, such as anthropic:NAME.")
    base_url: str | None = Field(default=None, description="URL of an OpenAI-compatible server that serves the model.")
    seed_kernels: list[str] = Field(default_factory=list[str], description="Files to start from, not the bundled ones.")
    language: Literal["cpp", "triton", "cuda", "python"] | None = None
    confirm: bool = Field(default=True, description="Keep one measurement back to measure the winner once more.")
    holdout: bool = Field(default=True, description="Try a confirmed winner on shapes near the given ones, too.")
    audit: float | None = Field(
        default=None, ge=0, le=1, description="Share of the discards that is measured all the same; null: 0.05."
    )
    explore: int | None = Field(
        default=None, ge=0, description="Measurements spread over the space before forecasts decide; null: 3."
    )
    proposals: int | None = Field(
        default=None, ge=1, description="New candidates per round; null: 8, or 12 where a model writes them."
    )
    measure_per_round: int | None = Field(
        default=None, ge=1, description="Measurements per round; null: 1, or 3 where a model writes candidates."
    )
    patience: int | None = Field(
        default=None, ge=0, description="Rounds without a promising candidate after which the run ends; null: 6."
    )


class ResumeRequest(Part):
    """Which run to take up. The model and the pool are taken from here; keys and paths are not in the archive."""

    run_id: str
    place: Place = Place()
    model: str | None = None
    base_url: str | None = None


@dataclass(frozen=True, slots=True)
class SearchJob:
    """A run that is being worked on."""

    archive: Archive
    search: Search
    estimate: Estimate | None = None
    """What the run will probably take; None for one that is taken up again."""

    @property
    def run_id(self) -> str:
        """The run's id in the archive."""
        return self.search.run_id

    def events(self) -> Iterator[Event]:
        """Do the work and yield what happens."""
        return self.search.events()

    def recorded(self, after: int = 0) -> list[EventRow]:
        """Return the run's events so far with a number above `after`, those of earlier processes too."""
        return self.archive.events(self.run_id, after)

    def spend(self) -> Spend:
        """Return what the run has spent, up to what was booked last."""
        return self.archive.spend(self.run_id)

    def stop(self) -> None:
        """Ask the run to end with the best so far; may be called from a signal handler."""
        self.search.stop()

    def result(self) -> SearchResult:
        """Return what the run came to so far."""
        return report(self.archive, self.run_id)

    def figures(self, result: SearchResult) -> RunFigures:
        """Return what there is to draw of that result."""
        from forewarp.tools.run_figures import figures  # a server lists its tools without it

        return figures(self.archive, result)

    def drop_in(self) -> DropIn | None:
        """Return the winner as a module with its evidence; None while nothing worked."""
        return drop_in(self.archive, self.run_id)


def search(request: SearchRequest, *, watch: Callable[[Event], None] = lambda _: None) -> SearchResult:
    """Run a whole optimisation; `watch` sees each event."""
    with open_search(request) as job:
        for event in job.events():
            watch(event)
        return job.result()


@contextmanager
def open_search(request: SearchRequest) -> Generator[SearchJob]:
    """Register a run; nothing happens before its events are read."""
    model, settings = _prepared(request)
    forecaster = sessions.make_forecaster(request.forecaster, model)
    with sessions.open_session(request.place, request.task) as opened:
        task = _with_seeds(request, opened.task, opened.executor.target.kind)
        replay = opened.executor if request.place.device == "replay" else None
        # The history is read before this run is in it.
        expected = estimate(
            task,
            opened.executor.target,
            settings,
            archive=opened.archive.path,
            dollars=_pricing(model),
            replay=replay,
        )
        proposer = make_proposer(opened.executor, task, model)
        search = Search.start(opened.archive, task, opened.executor, proposer, forecaster, settings)
        yield SearchJob(opened.archive, search, expected)


def estimate_search(request: SearchRequest) -> Estimate:
    """Estimate a run without starting it: nothing is written, no device is held and no model is asked.

    Raises what `open_search` would raise of the request.
    """
    model, settings = _prepared(request)
    if request.forecaster in ("llm", "cascade") and model is None:
        sessions.make_forecaster(request.forecaster, model)
    task = sessions.load_task(request.task, request.place)
    replay = sessions.open_executor(request.place, task) if request.place.device == "replay" else None
    if replay is None and request.place.pool:
        raise sessions.only_for_replay(request.place)
    target = replay.target if replay is not None else devices.choose(request.place.device)
    task = _with_seeds(request, task, target.kind)
    archive = Path(request.place.archive).expanduser() if request.place.archive else default_path()
    return estimate(task, target, settings, archive=archive, dollars=_pricing(model), replay=replay)


def settings_of(request: SearchRequest) -> SearchSettings:
    """Return the settings of a run; raises `UsageError` for what makes no sense together."""
    if request.forecaster == "none":
        idle = [n for n in ("audit", "explore", "measure_per_round", "patience") if getattr(request, n) is not None]
        if idle:
            raise UsageError(
                f"without a forecaster everything is measured, so that {' and '.join(idle)} would do nothing",
                hint="leave that out, or choose a forecaster",
            )
    chosen = SearchSettings(
        seed=request.seed,
        budget=request.budget.budget(),
        confirm=request.confirm,
        holdout=request.holdout,
        proposer=label(request.model, request.base_url, replaying=request.place.device == "replay"),
        forecaster="" if request.forecaster == "none" else request.forecaster,
    )
    if request.model is not None:
        # A model is asked for several programs at once, and its answer takes longer than a measurement.
        chosen = replace(chosen, proposals_per_round=12, measure_per_round=3)
    if request.forecaster == "llm":
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


def _prepared(request: SearchRequest) -> tuple[LanguageModel | None, SearchSettings]:
    """Return the model, if any, and the settings, before anything is opened."""
    settings = settings_of(request)
    model = sessions.make_model(request.model, request.base_url)
    if model is not None and request.budget.dollars is not None:
        sessions.check_price(model)
    return model, settings


def _with_seeds(request: SearchRequest, task: Task, kind: DeviceKind) -> Task:
    needed = request.model is None and request.place.device != "replay"
    return sessions.with_seeds(task, kind, request.seed_kernels, request.language, needed=needed)


def _pricing(model: LanguageModel | None) -> Dollars | None:
    """Return what turns tokens of the model into dollars."""
    if model is None:
        return None
    from pydantic_ai.usage import RunUsage

    def dollars(read: float, written: float) -> float | None:
        return model.cost(0.0, RunUsage(input_tokens=round(read), output_tokens=round(written))).dollars

    return dollars


@contextmanager
def resume_search(request: ResumeRequest) -> Generator[SearchJob]:
    """Take up a run that was interrupted, failed or killed."""
    with sessions.open_archive(request.place) as archive:
        row = archive.run(request.run_id)
    settings: Mapping[str, Any] = row.settings
    recorded_model, recorded_url, replayed = from_label(str(settings.get("proposer", "")))
    model = sessions.make_model(request.model or recorded_model, request.base_url or recorded_url)
    forecaster = sessions.make_forecaster(str(settings.get("forecaster") or "none"), model)
    device = "replay" if replayed else row.target.kind if request.place.device == "auto" else request.place.device
    pool = request.place.pool
    if replayed and not pool:
        if row.task.sha256 not in tasks_of(BUNDLED_POOL):
            raise UsageError(f"run {row.id} replayed a pool", hint="pass --pool PATH of that pool again")
        pool = str(BUNDLED_POOL)
    place = request.place.model_copy(update={"device": device, "pool": pool})
    with sessions.open_session(place, row.task) as opened:
        proposer = make_proposer(opened.executor, row.task, model)
        yield SearchJob(opened.archive, Search.resume(opened.archive, row.id, opened.executor, proposer, forecaster))
