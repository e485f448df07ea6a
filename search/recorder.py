"""Recorder of a run's events, wall time and budget warnings, each in the transaction of the change that it is about."""

from __future__ import annotations

import time
from collections.abc import Iterator

from forewarp.archive.store import Archive
from forewarp.core.budget import Budget, Spend, warnings
from forewarp.search import events as kinds
from forewarp.search.events import BudgetWarning, Event


class Recorder:
    """Appends to one run's event list and ledger."""

    def __init__(self, archive: Archive, run: str, budget: Budget) -> None:
        self._archive, self._run, self._budget = archive, run, budget
        self._ticked = time.monotonic()
        self._warned: dict[str, float] = {}
        self._spent, self._entry = Spend(), 0

    def begin(self, first: Event) -> Iterator[Event]:
        """Start the clock, and yield the first event once it is written."""
        self._ticked = time.monotonic()
        said = (kinds.from_data(e.type, e.data) for e in self._archive.events(self._run))
        # Shares rise with the spend, so that the latest warning of a currency is its highest.
        self._warned = {e.currency: e.share for e in said if isinstance(e, BudgetWarning)}
        yield self.say(first)

    def say(self, event: Event) -> Event:
        """Append the event to the archive and return it; called inside the transaction of its change."""
        data = kinds.to_data(event)
        self._archive.add_event(self._run, data.pop("type"), data)
        return event

    def tick(self) -> None:
        """Book the wall time since the last call, so that a killed run loses one step of it at most."""
        now = time.monotonic()
        self._archive.add_spend(self._run, "wall_s", now - self._ticked, "session")
        self._ticked = now

    def spend(self) -> Spend:
        """Return what the run has spent, up to the last tick."""
        more, self._entry = self._archive.spend_since(self._run, self._entry)
        self._spent += more
        return self._spent

    def spend_device(self, seconds: float, ref: str) -> None:
        """Book device seconds that belong to no recorded measurement."""
        if seconds:
            self._archive.add_spend(self._run, "device_s", seconds, ref)

    def warn(self) -> list[Event]:
        """Append a warning for each currency that passed another share of its cap since the last call."""
        short = warnings(self._budget, self.spend())
        new = [w for w in short if w.share > self._warned.get(w.currency, 0.0)]
        self._warned |= {w.currency: w.share for w in new}
        return [self.say(BudgetWarning(self._run, w.currency, w.spent, w.cap, w.share)) for w in new]
