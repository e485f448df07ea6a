"""A run from start to end: beginning, ending and resuming it."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import Self

from forewarp.archive.rows import RunRow, RunStatus
from forewarp.archive.store import Archive
from forewarp.core import serde
from forewarp.core.errors import ArchiveError, UsageError
from forewarp.core.protocols import Executor, Forecaster, Proposer
from forewarp.core.values import Task
from forewarp.search import finals, lease, rounds
from forewarp.search.events import Event, RunFinished, RunResumed, RunStarted
from forewarp.search.run import BudgetSpent, SearchRun, Stopped
from forewarp.search.settings import SearchSettings, stored
from forewarp.search.summary import RunSummary, best_of, summarise


class Search:
    """One run. All of its state is in the archive, so that a killed run resumes where it was."""

    def __init__(
        self,
        archive: Archive,
        row: RunRow,
        executor: Executor,
        proposer: Proposer,
        forecaster: Forecaster | None,
        *,
        resumed: bool,
    ) -> None:
        """Create a search of a run; call `start` or `resume` instead."""
        self.run_id = row.id
        self._run = SearchRun(archive, row, executor, proposer, forecaster)
        self.settings = self._run.settings
        self._resumed, self._begun = resumed, False

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
        settings = settings or SearchSettings()
        settings.check()
        settings = replace(
            settings,
            proposer=settings.proposer or proposer.name,
            forecaster=(settings.forecaster or forecaster.name) if forecaster else "",
        )
        environment = {"python": platform.python_version(), "platform": platform.platform()}
        run = archive.create_run(task, executor.target, serde.to_data(settings), environment, lease.owner())
        return cls(archive, archive.run(run), executor, proposer, forecaster, resumed=False)

    @classmethod
    def resume(
        cls,
        archive: Archive,
        run_id: str,
        executor: Executor,
        proposer: Proposer,
        forecaster: Forecaster | None = None,
    ) -> Self:
        """Take up a run that was interrupted, failed or killed, of `archive.run(run_id)`'s task and settings.

        Raises `UsageError` if it is finished, worked on, or began on another target or otherwise forecast.
        """
        run = archive.run(run_id)
        if run.status == "finished":
            raise UsageError(f"run {run.id} is finished: {run.reason}", hint="start a new run instead")
        lease.check(run)
        if executor.target.name != run.target.name:
            raise UsageError(
                f"run {run.id} measures on {run.target.name}, not on {executor.target.name}",
                hint="resume it where that device is, or start a new run",
            )
        began_with = stored(run.settings).forecaster
        if bool(began_with) != (forecaster is not None):
            raise UsageError(
                f"run {run.id} began with {'forecaster ' + began_with if began_with else 'no forecaster'}",
                hint="resume it with the same",
            )
        return cls(archive, run, executor, proposer, forecaster, resumed=True)

    def events(self) -> Iterator[Event]:
        """Do the work and yield what happens, `RunFinished` last. Closing the iterator interrupts the run.

        Errors mark the run as failed and are raised again; it can be resumed then, as after a kill.
        """
        if self._begun:
            raise UsageError(f"this search of run {self.run_id} was begun before", hint="use Search.resume")
        self._begun = True
        with lease.hold(self._run.archive, self.run_id):
            yield from self._ended()

    def run(self) -> RunSummary:
        for _ in self.events():
            pass
        return self.summary()

    def stop(self) -> None:
        """Ask the run, from any thread, to end as "interrupted" once the measurement in progress is finished."""
        self._run.stop.set()

    def summary(self) -> RunSummary:
        return summarise(self._run.archive, self.run_id)

    def _ended(self) -> Generator[Event]:
        try:
            yield from self._work()
        except (KeyboardInterrupt, GeneratorExit):
            self._end("interrupted", "interrupted")
            raise
        except Exception as e:
            # An archive that cannot be written cannot note this either.
            with contextlib.suppress(ArchiveError):
                yield self._end("failed", str(e))
            raise

    def _work(self) -> Generator[Event]:
        run = self._run
        if self._resumed:
            rounds.load(run)
        yield from run.begin(self._first_event())
        try:
            reason = yield from rounds.until_spent(run)
            yield from finals.confirm(run)
        except Stopped:
            yield self._end("interrupted", "stopped on request")
        else:
            if isinstance(reason, BudgetSpent):
                reason = reason.words(run.settings.budget, run.spend())
            yield self._end("finished", reason)

    def _first_event(self) -> Event:
        run, s = self._run, self._run.settings
        if self._resumed:
            return RunResumed(run.id, run.round, run.archive.spend(run.id))
        return RunStarted(run.id, run.task.name, run.target.name, s.proposer, s.forecaster, s.budget)

    def _end(self, status: RunStatus, reason: str) -> Event:
        run = self._run
        with run.archive.transaction():
            run.tick()
            run.archive.set_status(run.id, status, reason)
            best, _ = best_of(run.archive, run.id)
            spend = run.archive.spend(run.id)
            return run.record(RunFinished(run.id, status, reason, best.speedup if best else None, spend))
