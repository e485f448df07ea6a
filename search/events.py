"""Events of a run: one stream for progress bars, JSON lines, the archive and tests.

Every event is written in the same transaction as the change that it tells of, then yielded by `Search.events()`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from forewarp.core import serde
from forewarp.core.budget import Budget, Spend
from forewarp.core.values import Cost, Decision, Forecast, Status, Verdict


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A new run; `task` and `target` are names."""

    run: str
    task: str
    target: str
    proposer: str
    forecaster: str
    budget: Budget


@dataclass(frozen=True, slots=True)
class RunResumed:
    """An interrupted run goes on in `round`, with what it had spent before."""

    run: str
    round: int
    spend: Spend


@dataclass(frozen=True, slots=True)
class Proposed:
    """A candidate entered the run. `kernel` is its identity (sha256) in this and all later events."""

    run: str
    round: int
    position: int
    kernel: str
    language: str
    tunables: Mapping[str, int]
    proposer: str
    parent: str
    note: str
    mate: str = ""
    operator: str = ""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A candidate passed the gate; `seconds` is its compile time."""

    run: str
    round: int
    kernel: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Rejected:
    """The gate stopped a candidate. `outcome` is malformed, duplicate, same_code or compile_error."""

    run: str
    round: int
    kernel: str
    outcome: str
    reason: str


@dataclass(frozen=True, slots=True)
class Forecasted:
    """A candidate was forecast."""

    run: str
    round: int
    kernel: str
    forecast: Forecast


@dataclass(frozen=True, slots=True)
class Escalated:
    """A dearer tier of a cascade was asked for some of the round's candidates; `tier` is its forecaster's name."""

    run: str
    round: int
    tier: str
    candidates: int
    cost: Cost


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A forecaster had no usable answer for some of the round's candidates; `problem` says why."""

    run: str
    round: int
    forecaster: str
    candidates: int
    problem: str


@dataclass(frozen=True, slots=True)
class Decided:
    """It was decided whether to measure a candidate; `decision.numbers` holds what this rested on."""

    run: str
    round: int
    kernel: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class Measuring:
    """A measurement is about to start and is already booked. `purpose` is candidate or confirm."""

    run: str
    round: int
    kernel: str
    measurement: int
    purpose: str


@dataclass(frozen=True, slots=True)
class Measured:
    """A measurement is done; `best` is the run's highest speed-up so far, None while nothing worked."""

    run: str
    round: int
    kernel: str
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
class Alarmed:
    """Outcomes do not fit the forecasts (alarm number `alarms`): everything is measured for the next `outcomes`."""

    run: str
    round: int
    alarms: int
    outcomes: int


@dataclass(frozen=True, slots=True)
class Examined:
    """The winner was tried on shapes that nobody tuned for; `generalises` is yes, no, partly or unknown."""

    run: str
    round: int
    kernel: str
    generalises: str
    said: str


@dataclass(frozen=True, slots=True)
class BudgetWarning:
    """At least `share` of one currency's cap is spent; said once per currency, share and run.

    Where one step passes several shares, the highest alone is said.
    """

    run: str
    currency: str
    spent: float
    cap: float
    share: float = 0.8


@dataclass(frozen=True, slots=True)
class RunFinished:
    """The run ended. `status` is finished, interrupted or failed; `reason` says why in words."""

    run: str
    status: str
    reason: str
    best: float | None
    spend: Spend


Event = (
    RunStarted
    | RunResumed
    | Proposed
    | Accepted
    | Rejected
    | Forecasted
    | Escalated
    | Unanswered
    | Decided
    | Measuring
    | Measured
    | Alarmed
    | Examined
    | BudgetWarning
    | RunFinished
)
_KINDS: dict[str, Any] = {kind.__name__: kind for kind in get_args(Event)}


def to_data(event: Event) -> dict[str, Any]:
    """Return the event as JSON-ready data; its key `type` holds the class name."""
    return {"type": type(event).__name__, **serde.to_data(event)}


def from_data(kind: str, data: Mapping[str, Any]) -> Event:
    """Build the event of type `kind` from its fields, as the archive keeps them."""
    event: Event = serde.from_data(_KINDS[kind], data)
    return event
