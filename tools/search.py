"""Optimise a task: propose, gate, forecast, decide, measure, record, until the budget is spent."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import Field

from forewarp.archive.pools import tasks_of
from forewarp.archive.store import Archive
from forewarp.core.errors import UsageError
from forewarp.gpu_runner.formats.task import BUNDLED_POOL
from forewarp.search.events import Event
from forewarp.search.loop import Search
from forewarp.search.settings import SearchSettings
from forewarp.tools import session as sessions
from forewarp.tools.parts import Amounts, Part, Place
from forewarp.tools.proposer import from_label, label, make_proposer
from forewarp.tools.run_report import SearchResult, report

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

    @property
    def run_id(self) -> str:
        """The run's id in the archive."""
        return self.search.run_id

    def events(self) -> Iterator[Event]:
        """Do the work and yield what happens."""
        return self.search.events()

    def stop(self) -> None:
        """Ask the run to end with the best so far; may be called from a signal handler."""
        self.search.stop()

    def result(self) -> SearchResult:
        """Return what the run came to so far."""
        return report(self.archive, self.run_id)


def search(request: SearchRequest, *, watch: Callable[[Event], None] = lambda _: None) -> SearchResult:
    """Run a whole optimisation; `watch` sees each event."""
    with open_search(request) as job:
        for event in job.events():
            watch(event)
        return job.result()


@contextmanager
def open_search(request: SearchRequest) -> Generator[SearchJob]:
    """Register a run; nothing happens before its events are read."""
    model = sessions.make_model(request.model, request.base_url)
    if model is not None and request.budget.dollars is not None:
        sessions.check_price(model)
    # Until the policy has explored it does not look at forecasts, so that paid ones would be wasted.
    forecaster = sessions.make_forecaster(request.forecaster, model, patience=SearchSettings().explore)
    with sessions.open_session(request.place, request.task) as opened:
        replaying = request.place.device == "replay"
        task = sessions.with_seeds(
            opened.task,
            opened.executor.target.kind,
            request.seed_kernels,
            request.language,
            needed=model is None and not replaying,
        )
        settings = SearchSettings(
            seed=request.seed,
            budget=request.budget.budget(),
            proposer=label(request.model, request.base_url, replaying=replaying),
            forecaster="" if forecaster is None else request.forecaster,
        )
        if model is not None:
            # A model is asked for several programs at once, and its answer takes longer than a measurement.
            settings = replace(settings, proposals_per_round=12, measure_per_round=3)
        if request.forecaster == "llm":
            # Each forecast costs seconds and cents: fewer candidates a round, and none asked about again.
            settings = replace(settings, proposals_per_round=8, reconsider=0)
        proposer = make_proposer(opened.executor, task, model)
        yield SearchJob(
            opened.archive, Search.start(opened.archive, task, opened.executor, proposer, forecaster, settings)
        )


@contextmanager
def resume_search(request: ResumeRequest) -> Generator[SearchJob]:
    """Take up a run that was interrupted, failed or killed."""
    with sessions.open_archive(request.place) as archive:
        row = archive.run(request.run_id)
    settings: Mapping[str, Any] = row.settings
    recorded_model, recorded_url, replayed = from_label(str(settings.get("proposer", "")))
    model = sessions.make_model(request.model or recorded_model, request.base_url or recorded_url)
    forecaster = sessions.make_forecaster(
        str(settings.get("forecaster") or "none"), model, patience=int(settings.get("explore", 0))
    )
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
