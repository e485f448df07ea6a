"""Account of a run in seconds and dollars: what was asked, built and measured, and what forecasts spared.

A rented device costs money as long as the run holds it, so that waiting for an answer or a compiler counts as well as
measuring. `surrogate/prices.py` has the price of an hour.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from forewarp.archive.rows import CandidateRow
from forewarp.core.budget import Spend
from forewarp.core.protocols import Subject, Trial
from forewarp.core.values import Cost, Target
from forewarp.surrogate.prices import Prices


@dataclass(frozen=True, slots=True)
class AccountLine:
    """One line of an account. `seconds` are as booked; `dollars` is None where a price is not known."""

    count: int = 0
    seconds: float = 0.0
    dollars: float | None = 0.0


@dataclass(frozen=True, slots=True)
class Account:
    """Costs of a run, beside those of measuring every candidate that it considered.

    `hour` is what an hour of the device is taken to cost. `asked` are answers of forecasters, `written` programs by
    models, `built` compiles outside the cache, their seconds over all threads, `measured` the device's. `spared`
    estimates those considered and not measured, as the run's measurements of their language; `saved` is that less
    `asked`.
    """

    hour: float | None
    asked: AccountLine = field(default_factory=AccountLine)
    written: AccountLine = field(default_factory=AccountLine)
    built: AccountLine = field(default_factory=AccountLine)
    measured: AccountLine = field(default_factory=AccountLine)
    spared: AccountLine | None = None
    saved: AccountLine | None = None


def account(
    target: Target,
    rows: Sequence[CandidateRow],
    answers: Sequence[tuple[int, Cost]],
    spend: Spend,
    threads: int,
    *,
    prices: Prices,
) -> Account:
    """Return the account of a run; each forecaster's `answers` are their number and cost, `threads` compile."""
    asked = _item([prices.asking(target, cost) for _, cost in answers], sum(count for count, _ in answers))
    written = _item([prices.asking(target, r.cost) for r in rows if r.cost != Cost()])
    compiled = [r.build.seconds for r in rows if r.build is not None and not r.build.cached and r.build.seconds > 0]
    seconds = sum(compiled)
    spared = _spared(target, rows, prices) if answers else None
    return Account(
        prices.hour(target),
        asked,
        written,
        AccountLine(len(compiled), seconds, prices.held(target, seconds / max(1, min(threads, len(compiled))))),
        AccountLine(spend.measurements, spend.device_s, prices.held(target, spend.device_s)),
        spared,
        spared and _less(spared, asked),
    )


def _spared(target: Target, rows: Sequence[CandidateRow], prices: Prices) -> AccountLine | None:
    done = [Trial(Subject(r.candidate, r.build), r.measurement) for r in rows if r.build and r.measurement]
    if not any(t.measurement.device_s > 0 for t in done):
        return None
    left = [r for r in rows if r.outcome == "passed" and r.forecast is not None and r.measurement is None]
    return _item([prices.measuring(target, r.candidate.language, done) for r in left])


def _item(costs: Sequence[Cost], count: int | None = None) -> AccountLine:
    total = sum(costs, Cost())
    return AccountLine(len(costs) if count is None else count, total.seconds, total.dollars)


def _less(spared: AccountLine, asked: AccountLine) -> AccountLine:
    known = spared.dollars is not None and asked.dollars is not None
    dollars = (spared.dollars or 0.0) - (asked.dollars or 0.0) if known else None
    return AccountLine(spared.count, spared.seconds - asked.seconds, dollars)
