"""What a run came to, read from the archive alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from forewarp.archive.rows import RunStatus
from forewarp.archive.store import Archive
from forewarp.core.values import Budget, Candidate, Forecast, Measurement, Spend


@dataclass(frozen=True, slots=True)
class Best:
    """The run's winner.

    `speedup`, `low` and `high` come from the confirmation where there is one (`confirmed`): the highest of many noisy
    numbers is too high on average, an independent second measurement is not. `first_speedup` is the number that won.
    """

    candidate: Candidate
    speedup: float
    low: float
    high: float
    confirmed: bool
    first_speedup: float
    measurement_id: int


@dataclass(frozen=True, slots=True)
class ForecastRow:
    """A forecast next to what was measured after it."""

    candidate: Candidate
    forecast: Forecast
    measurement: Measurement
    audit: bool


@dataclass(frozen=True, slots=True)
class FalseDiscards:
    """What the audits say about the forecaster's discards.

    Of `audited` discards drawn at random, `false` beat the incumbent of their round. `share` estimates this share among
    all `discarded` candidates; `low` and `high` are its exact 95 % interval (Clopper and Pearson).
    """

    discarded: int
    audited: int
    false: int
    share: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Counts, spend and winner of one run.

    `considered` counts candidates that passed the gate and were forecast; without a forecaster, all that passed it.
    `rejected` counts by gate outcome (malformed, duplicate, same_code, compile_error), `failures` measurements by status
    other than ok. `measured` counts candidates; the confirmation is in `spend` only.
    """

    run: str
    task: str
    target: str
    status: RunStatus
    reason: str
    forecaster: str
    proposer: str
    rounds: int
    proposed: int
    considered: int
    measured: int
    duplicates: int
    rejected: Mapping[str, int]
    failures: Mapping[str, int]
    best: Best | None
    note: str
    spend: Spend
    budget: Budget
    forecasts: tuple[ForecastRow, ...]
    false_discards: FalseDiscards | None


def summarise(archive: Archive, run_id: str) -> RunSummary:
    """Return what the run came to so far; works for a running one, too. Raises `UsageError` for an unknown run."""
    raise NotImplementedError
