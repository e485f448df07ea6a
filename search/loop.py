"""The loop: propose, gate, forecast, decide, measure, record, until the budget is spent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from forewarp.archive.store import Archive
from forewarp.core.protocols import Executor, Forecaster, Proposer
from forewarp.core.values import Task
from forewarp.search.events import Event
from forewarp.search.settings import SearchSettings
from forewarp.search.summary import RunSummary


class Search:
    """One run. All of its state is in the archive, so that a killed run resumes where it was."""

    run_id: str

    @classmethod
    def start(
        cls,
        archive: Archive,
        task: Task,
        executor: Executor,
        proposer: Proposer,
        forecaster: Forecaster | None = None,
        settings: SearchSettings | None = None,
    ) -> Self:
        """Register a new run; nothing happens before `events()` is read. Raises `UsageError` for bad settings."""
        raise NotImplementedError

    @classmethod
    def resume(
        cls,
        archive: Archive,
        run_id: str,
        executor: Executor,
        proposer: Proposer,
        forecaster: Forecaster | None = None,
    ) -> Self:
        """Take up a run that was interrupted, failed or killed; `archive.run(run_id)` tells its task and settings.

        Raises `UsageError` if the run is unknown, finished, worked on by a living process, or if the executor's target
        or the presence of a forecaster differ from what the run began with.
        """
        raise NotImplementedError

    def events(self) -> Iterator[Event]:
        """Do the work and yield what happens; the last event is `RunFinished`. Closing the iterator interrupts the run.

        `ForewarpError`s of executor, proposer and forecaster mark the run as failed and are raised again.
        """
        raise NotImplementedError

    def run(self) -> RunSummary:
        """Do all the work without looking at the events, and return the summary."""
        raise NotImplementedError

    def stop(self) -> None:
        """Ask the run to end: the measurement in progress is finished, the status becomes "interrupted".

        May be called from a signal handler or another thread.
        """
        raise NotImplementedError

    def summary(self) -> RunSummary:
        """Return what the run came to so far."""
        raise NotImplementedError
