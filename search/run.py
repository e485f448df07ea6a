"""One run's state, the parts that its steps work with, and its record of events, wall time and budget warnings."""

from __future__ import annotations

import contextlib
import math
import statistics
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from functools import partial

from forewarp.archive.rows import RunRow
from forewarp.archive.store import Archive
from forewarp.core.budget import Budget, Spend, warnings
from forewarp.core.protocols import Executor, Forecaster, Proposer
from forewarp.core.roofline import floor_s
from forewarp.core.values import Build, Measurement, Signature, Target
from forewarp.search import budget as budgets
from forewarp.search import events
from forewarp.search.events import BudgetWarning, Event
from forewarp.search.gate import Gate
from forewarp.search.settings import stored
from forewarp.search.state import RunState


class Stopped(Exception):
    """`Search.stop()` was called."""


class BudgetSpent(Exception):
    """The budget for searching is used up, by the currency that went first."""

    def __init__(self, currency: str) -> None:
        super().__init__(currency)
        self.currency = currency

    def words(self, budget: Budget, spend: Spend) -> str:
        """Return which cap is used up, and how many measurements were kept back for the end and not used."""
        left = budget.left("measurements", spend) if self.currency == "measurements" else None
        kept = f", except {left:g} kept back for the end and not used" if left else ""
        return budget.spent_words(self.currency) + kept


class SearchRun:
    """One run, for `rounds`, `measuring` and `finals`; `confirms` says whether the best is measured again."""

    def __init__(
        self,
        archive: Archive,
        row: RunRow,
        executor: Executor,
        proposer: Proposer,
        forecaster: Forecaster | None,
    ) -> None:
        self.archive, self.executor, self.proposer, self.forecaster = archive, executor, proposer, forecaster
        self.id, self.task, self.target = row.id, row.task, row.target
        self.settings = stored(row.settings)
        self.stop = threading.Event()
        self.state = RunState(forecasting=forecaster is not None)
        self.builds: dict[int, Build] = {}
        self.gate: Gate | None = None
        self.signatures: tuple[Signature, ...] = ()
        # A recorded measurement would only be looked up again, which confirms nothing.
        self.confirms = self.settings.confirm and executor.candidates(row.task) is None
        self._ticked = time.monotonic()
        self._warned: dict[str, float] = {}
        self._spent, self._entry = Spend(), 0

    @property
    def round(self) -> int:
        return max(0, self.state.round)

    def begin(self, first: Event) -> Iterator[Event]:
        """Start the clock, and yield the first event once it is written."""
        self._ticked = time.monotonic()
        earlier = (events.from_data(e.type, e.data) for e in self.archive.events(self.id))
        # Shares rise with the spend, so that the latest warning of a currency is its highest.
        self._warned = {e.currency: e.share for e in earlier if isinstance(e, BudgetWarning)}
        yield self.record(first)

    @contextlib.contextmanager
    def step(self, *, warn: bool = True) -> Generator[list[Event]]:
        """Write changes in one transaction, with the events that are put into the list and new budget warnings."""
        with self.archive.transaction():
            self.tick()
            happened: list[Event] = []
            yield happened
            short = warnings(self.settings.budget, self.spend()) if warn else ()
            new = [w for w in short if w.share > self._warned.get(w.currency, 0.0)]
            self._warned |= {w.currency: w.share for w in new}
            happened += [BudgetWarning(self.id, w.currency, w.spent, w.cap, w.share) for w in new]
            for event in happened:
                self.record(event)

    def record(self, event: Event) -> Event:
        """Append the event to the archive and return it; called inside the transaction of its change."""
        data = events.to_data(event)
        self.archive.add_event(self.id, data.pop("type"), data)
        return event

    def tick(self) -> None:
        """Book the wall time since the last call, so that a killed run loses one step of it at most."""
        now = time.monotonic()
        self.archive.add_spend(self.id, "wall_s", now - self._ticked, "session")
        self._ticked = now

    def spend(self) -> Spend:
        """Return what the run has spent, up to the last tick."""
        more, self._entry = self.archive.spend_since(self.id, self._entry)
        self._spent += more
        return self._spent

    def floor(self) -> float | None:
        """Return the speed-up beyond which the roofline allows nothing; None before there is a best candidate."""
        best = self.state.best
        return floor_speedup(best.measurement, self.signatures, self.target) if best and best.measurement else None

    def search_budget(self, spend: Spend) -> Budget:
        """Return the budget for searching: all of it where nothing worked, so that nothing is confirmed."""
        best, done = self.state.best, len(self.state.trials)
        # Other measurements may have ended early: only the best one is sure to have been measured in full.
        each_s = best.measurement.device_s if best and best.measurement else 0.0
        without = partial(budgets.searching, self.settings.budget, spend, each_s=each_s)
        kept = without(confirm=self.confirms)
        if best is None and done >= (kept.measurements or 0):
            return without(confirm=False)
        return kept

    def check_may_begin(self) -> None:
        """Raise `Stopped` or `BudgetSpent` if the run must not begin anything new."""
        if self.stop.is_set():
            raise Stopped
        with self.archive.transaction():
            self.tick()
        spend = self.spend()
        spent = self.search_budget(spend).exhausted(spend)
        if spent is not None:
            raise BudgetSpent(spent)


def floor_speedup(measured: Measurement, signatures: Sequence[Signature], target: Target) -> float | None:
    """Return the speed-up of a kernel at the roofline floor of every workload; None where a floor is not known."""
    floors = {s.workload: floor_s(s, target) for s in signatures}
    gains = [w.anchor_median_s / floors[w.workload] for w in measured.workloads if floors.get(w.workload, 0.0) > 0]
    if not gains or len(gains) < len(signatures) or len(gains) < len(measured.workloads):
        return None
    return math.exp(statistics.fmean(map(math.log, gains)))
