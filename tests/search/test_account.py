"""The account of a run, from rows of its archive and a price table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from forewarp.archive.rows import CandidateRow
from forewarp.core.budget import Spend
from forewarp.core.protocols import Proposal
from forewarp.core.values import Build, Candidate, Cost, Forecast, Language, Measurement, Target
from forewarp.search.account import Account, AccountLine, account
from forewarp.surrogate.prices import Prices
from forewarp.tools import wording

TARGET = Target("NVIDIA H200", "cuda", "sm_90", 132)
PRICES = Prices("", {}, {"H200": 3600.0})  # a dollar a second
EVEN = Forecast((0.125,) * 8, 0.9, "learned")


def row(number: int, language: Language, device_s: float | None, *, written: Cost | None = None) -> CandidateRow:
    proposal = Proposal(Candidate(f"text {number}", language), "pool", cost=written or Cost())
    measured = None if device_s is None else Measurement("ok", "faster", "H200", "T0", device_s=device_s, speedup=2.0)
    return replace(
        CandidateRow.proposed(number, 0, number, proposal),
        outcome="passed",
        build=Build("ok", 3.0),
        forecast=EVEN,
        measurement=measured,
    )


ROWS = [row(1, "cuda", 2.0), row(2, "triton", 10.0), row(3, "cuda", None), row(4, "triton", None)]


def of(rows: Sequence[CandidateRow] = ROWS, asked: Cost | None = None, prices: Prices = PRICES) -> Account:
    answers = [(len(rows), asked)] if asked is not None else []
    return account(TARGET, rows, answers, Spend(measurements=3, device_s=14.0), 2, prices=prices)


def test_what_was_spared_is_estimated_by_language() -> None:
    found = of(asked=Cost(0.5, 100, 10, 0.25))
    assert found.asked == AccountLine(4, 0.5, 0.75)  # tokens, and half a second of the device
    assert found.built == AccountLine(4, 12.0, 6.0)  # two threads
    assert found.measured == AccountLine(3, 14.0, 14.0)
    assert found.spared == AccountLine(2, 12.0, 12.0)
    assert found.saved == AccountLine(2, 11.5, 11.25)
    assert wording.account(found).endswith("so forecasts saved about 12 s and $11.25, by estimate")


def test_asking_may_cost_more_than_it_saves() -> None:
    found = of(asked=Cost(0.5, 100, 10, 20.0))
    assert found.saved is not None
    assert found.saved.dollars == pytest.approx(-8.5)
    assert "saved about 12 s and cost $8.50 more" in wording.account(found)


def test_unknown_prices_stay_unknown() -> None:
    found = of(asked=Cost(0.5, 100, 10, None))
    assert (found.asked.dollars, found.saved) == (None, AccountLine(2, 11.5, None))
    unlisted = of(asked=Cost(0.5), prices=Prices("", {}))
    assert (unlisted.hour, unlisted.measured.dollars, unlisted.saved) == (None, None, AccountLine(2, 11.5, None))
    assert "$" not in wording.account(unlisted)


def test_without_forecasts_or_measurements_nothing_is_estimated() -> None:
    assert of().spared is None
    assert of(ROWS[2:], asked=Cost(0.5)).saved is None


def test_programs_and_cached_builds_count_for_what_they_cost() -> None:
    cached = replace(row(5, "cuda", 2.0, written=Cost(1.0, 10, 10, 0.5)), build=Build("ok", 3.0, cached=True))
    found = of([cached], asked=Cost(0.5))
    assert (found.written, found.built) == (AccountLine(1, 1.0, 1.5), AccountLine())
    assert wording.account(found).endswith("every candidate was measured")
