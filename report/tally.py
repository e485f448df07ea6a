"""Running totals of a run from its events: progress, current work, spending, and the reasons of its decisions."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from dataclasses import dataclass, field

from forewarp.core.budget import UNITS, Budget, Spend
from forewarp.core.values import Cost, Forecast
from forewarp.search import events
from forewarp.tools import wording
from forewarp.tools.parts import Amounts, Interval, shown, speedup_of
from forewarp.tools.run_report import BestSoFar
from forewarp.tools.search import SearchJob


@dataclass
class Tally:
    """State of a run, built from its events. `see` takes them in order, those of earlier processes too."""

    run: str = ""
    title: str = ""
    forecaster: str = ""
    budget: Budget = field(default_factory=Budget)
    spend: Spend = field(default_factory=Spend)
    counts: Counter[str] = field(default_factory=Counter[str])
    tunables: dict[str, str] = field(default_factory=dict[str, str])
    leading: BestSoFar = field(default_factory=BestSoFar)
    best_kernel: str = ""
    curve: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    """Share of the budget spent and log2 of the best speed-up; a point per measurement once there is a best."""
    compiling: set[str] = field(default_factory=set[str])
    unforecast: set[str] = field(default_factory=set[str])
    undecided: set[str] = field(default_factory=set[str])
    queue: set[str] = field(default_factory=set[str])
    measuring: dict[str, tuple[str, float]] = field(default_factory=dict[str, tuple[str, float]])
    """By kernel: measuring or confirming, and the `time.monotonic()` at which it began."""
    tiers: dict[str, tuple[int, Cost]] = field(default_factory=dict[str, tuple[int, Cost]])
    chosen: deque[str] = field(default_factory=lambda: deque[str](maxlen=3))
    skipped: deque[str] = field(default_factory=lambda: deque[str](maxlen=1))
    warnings: deque[str] = field(default_factory=lambda: deque[str](maxlen=2))
    confirmed: bool = False
    ended: str = ""
    began: float = field(default_factory=time.monotonic)
    spent_before: Spend = field(default_factory=Spend)
    _measured_here: int = 0

    @property
    def best(self) -> Interval | None:
        return self.leading.speedup

    def see(self, event: events.Event) -> str:
        """Update the state with an event; returns a line for a plain log, "" if the event makes none."""
        match event:
            case events.RunStarted():
                self.run, self.budget, self.forecaster = event.run, event.budget, event.forecaster
                self.title = (
                    f"{event.task} on {event.target} · {event.proposer} · {event.forecaster or 'no forecaster'}"
                )
                return f"run {event.run}: {self.title}"
            case events.RunResumed():
                self._resume(event)
                return f"run {event.run} goes on: {wording.amounts(Amounts.of(event.spend), Amounts())} spent before"
            case events.Proposed():
                self.counts["proposed"] += 1
                self.tunables[event.kernel] = shown(event.tunables)
                self.compiling.add(event.kernel)
            case events.Rejected():
                self.counts[event.outcome] += 1
                self.compiling.discard(event.kernel)
            case events.Accepted():
                self.counts["passed"] += 1
                self.compiling.discard(event.kernel)
                (self.unforecast if self.forecaster else self.undecided).add(event.kernel)
            case events.Forecasted():
                self._forecast(event.kernel, event.forecast)
            case events.Escalated():
                self.counts["escalated"] += event.candidates
                self._asked(event.tier, event.candidates, event.cost)
            case events.Unanswered():
                whom = wording.counted(event.candidates, "candidate")
                line = f"{event.forecaster} gave no usable answer for {whom}: {' '.join(event.problem.split())}"
                self.warnings.append(line)
                return line
            case events.Decided():
                self._decided(event)
            case events.Measuring():
                self.queue.discard(event.kernel)
                self.measuring[event.kernel] = (
                    "confirming" if event.purpose == "confirm" else "measuring",
                    time.monotonic(),
                )
            case events.Measured():
                return self._measured(event)
            case events.BudgetWarning():
                return self._warned(event)
            case events.Alarmed():
                line = f"outcomes do not fit the forecasts: the next {event.outcomes} measurements skip nothing"
                self.warnings.append(line)
                return line
            case events.Examined():
                return f"{event.kernel[:10]} on shapes that nobody tuned for: {event.said}"
            case events.RunFinished():
                self.ended, self.spend = event.status, event.spend
                self.measuring.clear()
                return f"run {event.run} {event.status}: {event.reason}"
            case _:
                pass
        return ""

    def _resume(self, event: events.RunResumed) -> None:
        self.run, self.spend, self.ended = event.run, event.spend, ""
        self.began, self.spent_before, self._measured_here = time.monotonic(), event.spend, 0
        self.measuring.clear()

    def _forecast(self, kernel: str, forecast: Forecast) -> None:
        self.counts["forecast"] += 1
        self.unforecast.discard(kernel)
        self.undecided.add(kernel)
        if forecast.tiers:
            # Costlier tiers are counted by their own `Escalated` events.
            self._asked(forecast.tiers[0].forecaster, 1, forecast.tiers[0].cost)
        else:
            self._asked(forecast.forecaster, 1, forecast.cost)

    def _asked(self, tier: str, candidates: int, cost: Cost) -> None:
        before = self.tiers.get(tier, (0, Cost()))
        self.tiers[tier] = (before[0] + candidates, before[1] + cost)

    def _decided(self, event: events.Decided) -> None:
        decision = event.decision
        self.counts[decision.action] += 1
        self.undecided.discard(event.kernel)
        self.unforecast.discard(event.kernel)
        said = f"{decision.action} {event.kernel[:10]}  {' '.join(decision.reason.split())}"
        if decision.action == "measure":
            self.queue.add(event.kernel)
            self.chosen.append(said)
        else:
            self.skipped.append(said)

    def _measured(self, event: events.Measured) -> str:
        self.spend = event.spend
        self._measured_here += 1
        self.measuring.pop(event.kernel, None)
        self.queue.discard(event.kernel)
        found = speedup_of(event)
        if event.purpose == "confirm":
            self.confirmed = True
            return f"confirmation of {event.kernel[:10]}: {wording.speedup(found)} {event.verdict}"
        self.counts["measured" if event.status == "ok" else "failed"] += 1
        if self.leading.see(found, event.verdict):
            self.best_kernel = event.kernel
        if self.best is not None:
            self.curve.append((self._share_of(self.spend), math.log2(self.best.ratio)))
        said = event.verdict if event.status == "ok" else event.status
        if found is not None:
            said = f"{wording.speedup(found)} {event.verdict}"
        return f"{self.meter()}  {event.kernel[:10]}  {said}  best {wording.speedup(self.best)}"

    def _warned(self, event: events.BudgetWarning) -> str:
        words = UNITS[event.currency]
        line = f"{event.spent / event.cap:.0%} of the budget: {event.spent:.4g} of {event.cap:g} {words} are spent"
        self.warnings.append(line)
        return line

    def doing(self) -> str:
        """Describe the current work: measurements in progress, and the number of candidates in each other stage."""
        if self.ended:
            return self.ended
        now = time.monotonic()
        parts = [f"{verb} {kernel[:10]} for {now - since:.0f} s" for kernel, (verb, since) in self.measuring.items()]
        parts += [
            f"{len(of)} {words}"
            for of, words in (
                (self.compiling, "compiling"),
                (self.unforecast, "being forecast"),
                (self.undecided, "to decide on"),
                (self.queue, "waiting for the device"),
            )
            if of
        ]
        idle = "trying the winner on other shapes" if self.confirmed else "proposing"
        return " · ".join(parts) or (idle if self.run else "starting")

    def meter(self) -> str:
        """Return the measurements spent and their cap, such as [3/24]."""
        cap = self.budget.measurements
        return f"[{self.spend.measurements}/{cap}]" if cap else f"[{self.spend.measurements}]"

    def spent(self, currency: str) -> float:
        """Return the amount spent of one currency; wall time counts up to now."""
        if currency == "wall_s" and not self.ended:
            return max(self.spend.wall_s, self.spent_before.wall_s + self.elapsed())
        return float(getattr(self.spend, currency))

    def share(self) -> float:
        """Return how much of the tightest cap is used, 0 to 1."""
        wall = self.budget.wall_s
        return max(self._share_of(self.spend), min(1.0, self.spent("wall_s") / wall) if wall else 0.0)

    def elapsed(self) -> float:
        """Return the seconds since this process began to work on the run."""
        return time.monotonic() - self.began

    def left(self, currency: str) -> float | None:
        """Estimate the seconds until the cap on one currency is reached; None if unknown."""
        cap = getattr(self.budget, currency)
        if cap is None or self.ended:
            return None
        missing = max(0.0, cap - self.spent(currency))
        if currency == "wall_s":
            return missing
        here = self.spent(currency) - getattr(self.spent_before, currency)
        return self.elapsed() * missing / here if self._measured_here and here > 0 else None

    def _share_of(self, spend: Spend) -> float:
        return min(1.0, max((spend.of(c) / cap for c, cap in self.budget.caps.items() if cap), default=0.0))


def so_far(job: SearchJob) -> Tally:
    """Return what earlier processes did of the run."""
    tally = Tally()
    for row in job.recorded():
        tally.see(events.from_data(row.type, row.data))
    return tally
