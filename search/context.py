"""One run's state and everything that its steps work with."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from forewarp.archive.rows import RunRow
from forewarp.archive.store import Archive
from forewarp.core.budget import Budget, Spend
from forewarp.core.protocols import Executor, Forecaster, Proposer, Trial
from forewarp.core.values import Build, Signature, Target, Task
from forewarp.search import price
from forewarp.search.ends import BudgetSpent, Stopped
from forewarp.search.gate import Gate
from forewarp.search.islands import Island
from forewarp.search.recorder import Recorder
from forewarp.search.settings import SearchSettings
from forewarp.search.state import RunState


@dataclass(slots=True)
class RunContext:
    """State of one run and the parts that its steps use, for the functions of `rounds`, `measuring` and `finals`.

    `visits_kept` is how many measurements are kept back for other targets' winners; `confirms` says whether the best
    candidate is measured again; `builds` are by proposal.
    """

    archive: Archive
    row: RunRow
    executor: Executor
    proposer: Proposer
    forecaster: Forecaster | None
    settings: SearchSettings
    recorder: Recorder
    stop: threading.Event
    island: Island | None
    state: RunState = field(init=False)
    visits_kept: int = field(init=False)
    confirms: bool = field(init=False)
    builds: dict[int, Build] = field(init=False, default_factory=dict[int, Build])
    gate: Gate | None = field(init=False, default=None)
    signatures: tuple[Signature, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        """Begin with the state of a run in which nothing has happened."""
        self.state = RunState(forecasting=self.forecaster is not None)
        self.visits_kept = self.settings.visitors
        # A recorded measurement would only be looked up again, which confirms nothing.
        self.confirms = self.settings.confirm and self.executor.candidates(self.task) is None

    @property
    def id(self) -> str:
        """The run's id."""
        return self.row.id

    @property
    def task(self) -> Task:
        """The task that is worked on."""
        return self.row.task

    @property
    def target(self) -> Target:
        """The device that is measured on."""
        return self.row.target

    @property
    def round(self) -> int:
        """The round that the run is in."""
        return max(0, self.state.round)

    def spend(self) -> Spend:
        """Return what was spent so far."""
        return self.recorder.spend()

    def trials(self) -> Sequence[Trial]:
        """Return the trials to learn from: this run's, or all of this task and target."""
        if not self.settings.learn_across_runs:
            return self.state.trials
        return self.archive.trials(self.task.sha256, self.target.name)

    def floor(self) -> float | None:
        """Return the speed-up beyond which the roofline allows nothing; None before there is a best candidate."""
        best = self.state.best
        if best is None or best.measurement is None:
            return None
        return price.floor_speedup(best.measurement, self.signatures, self.target)

    def search_budget(self, spend: Spend) -> Budget:
        """Return the budget that may be spent on searching.

        Where all of that is measured and nothing worked, there is nothing to confirm: what was kept back for it is
        searched with as well. A run that is tied to others keeps it, since what won there may still work here.
        """
        best, done = self.state.best, len(self.state.trials)
        # Other measurements may have ended early: only the best one is sure to have been measured in full.
        each_s = best.measurement.device_s if best and best.measurement else 0.0
        without = partial(searching, self.settings.budget, spend, each_s=each_s, visitors=self.visits_kept)
        kept = without(confirm=self.confirms)
        if self.island is None and best is None and done >= (kept.measurements or 0):
            return without(confirm=False)
        return kept

    def check_may_begin(self) -> None:
        """Raise `Stopped` or `BudgetSpent` if the run must not begin anything new."""
        if self.stop.is_set():
            raise Stopped
        with self.archive.transaction():
            self.recorder.tick()
        spend = self.spend()
        spent = self.search_budget(spend).exhausted(spend)
        if spent is not None:
            raise BudgetSpent(spent)


def searching(budget: Budget, spend: Spend, *, each_s: float, confirm: bool, visitors: int = 0) -> Budget:
    """Return the part of the budget that is not kept back for the confirmation and for other targets' winners.

    `each_s` is what measuring one of them takes of the device. It takes no more wall time than a measurement has taken
    so far, with all that belongs to it. A budget of one measurement has nothing to keep back: its only candidate is not
    confirmed.
    """
    kept = confirm + visitors
    each_wall_s = min(each_s, spend.wall_s / max(1, spend.measurements))
    most = budget.measurements
    return replace(
        budget,
        measurements=None if most is None else max(min(1, most), most - kept),
        device_s=None if budget.device_s is None else budget.device_s - kept * each_s,
        wall_s=None if budget.wall_s is None else budget.wall_s - kept * each_wall_s,
    )
