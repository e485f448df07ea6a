"""Live progress of a run on stderr: what is best so far, how far candidates came, what is left of the budget."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from forewarp.cli import display
from forewarp.core.values import UNTRUSTED, Budget, Spend
from forewarp.search import events
from forewarp.tools.parts import Amounts, Interval, shown

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_BAR = 30


@dataclass
class Tally:
    """What the events so far add up to."""

    run: str = ""
    title: str = ""
    budget: Budget = field(default_factory=Budget)
    spend: Spend = field(default_factory=Spend)
    counts: Counter[str] = field(default_factory=Counter[str])
    tunables: dict[str, str] = field(default_factory=dict[str, str])
    best: Interval | None = None
    best_kernel: str = ""
    standing: tuple[bool, float] = (False, 0.0)
    doing: str = "starting"
    tier: str = ""
    began: float = field(default_factory=time.monotonic)
    measured_here: int = 0

    def see(self, event: events.Event) -> str:
        """Take note of an event; returns a line for a plain log, "" where there is nothing to say."""
        match event:
            case events.RunStarted():
                self.run, self.budget = event.run, event.budget
                forecaster = event.forecaster or "measure everything"
                self.title = f"{event.task} on {event.target} · {event.proposer} · {forecaster}"
                return f"run {event.run}: {self.title}"
            case events.RunResumed():
                self.run, self.spend = event.run, event.spend
                return f"run {event.run} goes on: {display.amounts(Amounts.of(event.spend), Amounts())} spent before"
            case events.Proposed():
                self.counts["proposed"] += 1
                self.tunables[event.kernel] = shown(event.tunables)
                self.doing = "compiling"
            case events.Rejected():
                self.counts[event.outcome] += 1
            case events.Accepted():
                self.counts["passed"] += 1
            case events.Forecasted():
                self.counts["forecast"] += 1
                self.doing = "forecasting"
            case events.Escalated():
                self.counts["escalated"] += event.candidates
                self.tier = event.tier
            case events.Unanswered():
                whom = f"{event.candidates} candidate{'s' * (event.candidates != 1)}"
                return f"{event.forecaster} gave no usable answer for {whom}: {' '.join(event.problem.split())}"
            case events.Decided():
                self.counts[event.decision.action] += 1
            case events.Measuring():
                self.doing = f"{'confirming' if event.purpose == 'confirm' else 'measuring'} {event.kernel[:10]}"
            case events.Measured():
                return self._measured(event)
            case events.BudgetWarning():
                return f"{event.spent:g} of {event.cap:g} {event.currency} are spent"
            case events.RunFinished():
                self.doing, self.spend = event.status, event.spend
                return f"run {event.run} {event.status}: {event.reason}"
        return ""

    def _measured(self, event: events.Measured) -> str:
        self.spend = event.spend
        self.measured_here += 1
        self.doing = "proposing"
        found = None
        if event.speedup is not None and event.low is not None and event.high is not None:
            found = Interval(ratio=event.speedup, low=event.low, high=event.high)
        if event.purpose == "confirm":
            return f"confirmation of {event.kernel[:10]}: {display.speedup(found)} {event.verdict}"
        self.counts["measured" if event.status == "ok" else "failed"] += 1
        if found is not None and event.verdict not in UNTRUSTED:
            # As in the archive: an ambiguous number leads only until there is another.
            standing = (event.verdict != "ambiguous", found.ratio)
            if standing > self.standing:
                self.best, self.best_kernel, self.standing = found, event.kernel, standing
        said = display.speedup(found) if found else event.status
        return f"{self.meter()}  {event.kernel[:10]}  {said} {event.verdict}  best {display.speedup(self.best)}"

    def meter(self) -> str:
        """Return measurements spent of the cap."""
        cap = self.budget.measurements
        return f"[{self.spend.measurements}/{cap}]" if cap else f"[{self.spend.measurements}]"

    def share(self) -> float:
        """Return how much of the tightest cap is used, 0 to 1."""
        pairs = [
            (self.spend.measurements, self.budget.measurements),
            (self.spend.device_s, self.budget.device_s),
            (self.spend.dollars, self.budget.dollars),
            (self.spend.tokens, self.budget.tokens),
            (max(self.spend.wall_s, self.elapsed()), self.budget.wall_s),
        ]
        return min(1.0, max((spent / cap for spent, cap in pairs if cap), default=0.0))

    def elapsed(self) -> float:
        """Return the seconds since this process began to work on the run."""
        return time.monotonic() - self.began

    def seconds_left(self) -> float | None:
        """Return a guess of the time left, None while nothing was measured."""
        share = self.share()
        return None if not self.measured_here or not share else self.elapsed() * (1 - share) / share


@contextmanager
def shown_live(console: Console, *, quiet: bool) -> Generator[Callable[[events.Event], None]]:
    """Show a live panel on a terminal, a line per measurement elsewhere; yields what takes the events."""
    tally = Tally()
    if quiet or not console.is_terminal:

        def log(event: events.Event) -> None:
            line = tally.see(event)
            if line and not quiet:
                console.print(line, soft_wrap=True)

        yield log
        return
    from rich.live import Live

    with Live(get_renderable=lambda: panel(tally), console=console, refresh_per_second=4, transient=True):
        yield lambda event: (tally.see(event), None)[1]


def panel(tally: Tally) -> RenderableType:
    """Return the live view."""
    from rich.text import Text

    c = tally.counts
    share = tally.share()
    full = round(share * _BAR)
    left = tally.seconds_left()
    dropped = sum(c[o] for o in ("malformed", "duplicate", "same_code", "compile_error"))
    lines = [
        f"{tally.title}  ({tally.run})",
        f"{'━' * full}{'╌' * (_BAR - full)} {share:4.0%}  "
        + display.amounts(Amounts.of(tally.spend), Amounts.of(tally.budget))
        + (f"  about {left:.0f} s left" if left is not None else ""),
        f"proposed {c['proposed']} → passed the gate {c['passed']} (dropped {dropped}) → forecast {c['forecast']}"
        + (f" ({c['escalated']} also by {tally.tier})" if c["escalated"] else "")
        + f" → measured {c['measured']} (failed {c['failed']})",
        f"best {display.speedup(tally.best)}  {tally.best_kernel[:10]} {tally.tunables.get(tally.best_kernel, '')}",
        f"{tally.doing} …",
    ]
    return Text("\n".join(lines), no_wrap=True, overflow="ellipsis")
