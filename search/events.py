"""Events of a run: one stream for progress bars, JSON lines, the archive and tests.

Every event is written in the same transaction as the change that it tells of, then yielded by `Search.events()`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from forewarp.core import serde
from forewarp.core.budget import Budget, Spend
from forewarp.core.values import Cost, Decision, Forecast, Status, Verdict


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in a run."""

    run: str


@dataclass(frozen=True, slots=True)
class RoundEvent(Event):
    """Something that happened in a round of a run."""

    round: int


@dataclass(frozen=True, slots=True)
class KernelEvent(RoundEvent):
    """Something that happened to a candidate; `kernel` is its identity (sha256)."""

    kernel: str


@dataclass(frozen=True, slots=True)
class RunStarted(Event):
    """A new run; `task` and `target` are names."""

    task: str
    target: str
    proposer: str
    forecaster: str
    budget: Budget


@dataclass(frozen=True, slots=True)
class RunResumed(RoundEvent):
    """An interrupted run goes on in `round`, with what it had spent before."""

    spend: Spend


@dataclass(frozen=True, slots=True)
class Proposed(KernelEvent):
    """A candidate entered the run at a position of the round."""

    position: int
    language: str
    tunables: Mapping[str, int]
    proposer: str
    parent: str
    note: str
    mate: str = ""
    operator: str = ""


@dataclass(frozen=True, slots=True)
class Accepted(KernelEvent):
    """A candidate passed the gate; `seconds` is its compile time."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Rejected(KernelEvent):
    """The gate stopped a candidate. `outcome` is malformed, duplicate, same_code or compile_error."""

    outcome: str
    reason: str


@dataclass(frozen=True, slots=True)
class Forecasted(KernelEvent):
    """A candidate was forecast."""

    forecast: Forecast


@dataclass(frozen=True, slots=True)
class Escalated(RoundEvent):
    """A dearer tier of a cascade was asked for some of the round's candidates; `tier` is its forecaster's name."""

    tier: str
    candidates: int
    cost: Cost


@dataclass(frozen=True, slots=True)
class Unanswered(RoundEvent):
    """A forecaster had no usable answer for some of the round's candidates; `problem` says why."""

    forecaster: str
    candidates: int
    problem: str


@dataclass(frozen=True, slots=True)
class Decided(KernelEvent):
    """It was decided whether to measure a candidate; `decision.numbers` holds what this rested on."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class Measuring(KernelEvent):
    """A measurement is about to start and is already booked. `purpose` is candidate or confirm."""

    measurement: int
    purpose: str


@dataclass(frozen=True, slots=True)
class Measured(KernelEvent):
    """A measurement is done; `best` is the run's highest speed-up so far, None while nothing worked."""

    measurement: int
    purpose: str
    status: Status
    verdict: Verdict
    speedup: float | None
    low: float | None
    high: float | None
    best: float | None
    spend: Spend


@dataclass(frozen=True, slots=True)
class Alarmed(RoundEvent):
    """Outcomes do not fit the forecasts (alarm number `alarms`): everything is measured for the next `outcomes`."""

    alarms: int
    outcomes: int


@dataclass(frozen=True, slots=True)
class Examined(KernelEvent):
    """The winner was tried on shapes that nobody tuned for; `generalises` is yes, no, partly or unknown."""

    generalises: str
    said: str


@dataclass(frozen=True, slots=True)
class BudgetWarning(Event):
    """At least `share` of a cap is spent: the highest share that was passed, told once per currency."""

    currency: str
    spent: float
    cap: float
    share: float = 0.8


@dataclass(frozen=True, slots=True)
class RunFinished(Event):
    """The run ended. `status` is finished, interrupted or failed; `reason` says why in words."""

    status: str
    reason: str
    best: float | None
    spend: Spend


_KINDS: dict[str, Any] = {
    name: kind for name, kind in globals().items() if isinstance(kind, type) and issubclass(kind, Event)
}


def to_data(event: Event) -> dict[str, Any]:
    """Return the event as JSON-ready data; its key `type` holds the class name."""
    return {"type": type(event).__name__, **serde.to_data(event)}


def from_data(kind: str, data: Mapping[str, Any]) -> Event:
    event: Event = serde.from_data(_KINDS[kind], data)
    return event
