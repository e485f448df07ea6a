"""Warnings at half and four fifths of a cap: each once, whatever happens in between; and what a hard stop leaves."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from support.clock import timed
from support.synthetic_executor import KnowingForecaster, SyntheticExecutor, task

from forewarp.archive.store import Archive
from forewarp.core.budget import Budget, Spend
from forewarp.search.budget import searching
from forewarp.search.events import BudgetWarning, Measured, RunFinished, from_data
from forewarp.search.loop import Search
from forewarp.search.proposers.tunables import TunablesProposer
from forewarp.search.run import BudgetSpent
from forewarp.search.settings import SearchSettings


def test_what_is_kept_back_is_what_the_end_will_take() -> None:
    budget, spend = Budget(10, device_s=20.0, dollars=1.0, wall_s=60.0), Spend(4, device_s=8.0, wall_s=2.0)
    kept = searching(budget, spend, each_s=1.5, confirm=True)
    # Four measurements took half a second of wall time each: there are several devices.
    assert kept == Budget(9, device_s=18.5, dollars=1.0, wall_s=59.5)
    assert searching(Budget(), spend, each_s=1.5, confirm=True) == Budget()
    assert searching(budget, Spend(), each_s=0.0, confirm=False) == budget
    assert searching(Budget(1), spend, each_s=1.5, confirm=True) == Budget(1)
    assert searching(Budget(2), spend, each_s=1.5, confirm=True) == Budget(1)
    assert searching(Budget(wall_s=10.0), Spend(1, wall_s=2.0), each_s=1.5, confirm=True) == Budget(wall_s=8.5)


def test_a_warning_recorded_before_there_were_shares_reads_as_the_last_one() -> None:
    old = from_data("BudgetWarning", {"run": "r-1", "currency": "tokens", "spent": 81.0, "cap": 100.0})
    assert old == BudgetWarning("r-1", "tokens", 81.0, 100.0, 0.8)


class Killed(BaseException):
    """Stands for a process that ends without a word."""


class Dying(Archive):
    """Dies right after a commit in which it wrote a warning."""

    warned = False

    def add_event(self, run: str, type: str, data: Any) -> int:
        self.warned |= type == "BudgetWarning"
        return super().add_event(run, type, data)

    @contextlib.contextmanager
    def transaction(self) -> Generator[None]:
        with super().transaction():
            yield
        if self.warned and self._depth == 0:
            raise Killed


def test_no_warning_is_said_again_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    budget = Budget(measurements=6, device_s=2.5)
    executor, proposer, forecaster = SyntheticExecutor(), TunablesProposer(), KnowingForecaster()
    with Archive(path) as archive:
        run = Search.start(archive, task(), executor, proposer, forecaster, SearchSettings(budget=budget)).run_id
    for _ in range(9):
        with Dying(path) as archive:
            try:
                summary = Search.resume(archive, run, executor, proposer, forecaster).run()
            except Killed:
                continue
            break
    else:
        pytest.fail("the run never ended")
    assert summary.status == "finished"
    with Archive(path) as archive:
        said = [from_data(e.type, e.data) for e in archive.events(run)]
    warned = [(e.currency, e.share) for e in said if isinstance(e, BudgetWarning)]
    assert len(warned) == len(set(warned))
    assert {("measurements", 0.5), ("measurements", 0.8), ("device_s", 0.5)} <= set(warned)


@pytest.mark.parametrize("budget", [Budget(wall_s=1.0), Budget(device_s=1.0), Budget(measurements=3)])
def test_a_hard_stop_keeps_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: Budget) -> None:
    with Archive(tmp_path / "a.db") as archive:
        settings = SearchSettings(budget=budget)
        search = Search.start(archive, task(), timed(monkeypatch), TunablesProposer(), KnowingForecaster(), settings)
        told = list(search.events())
        summary = search.summary()
        done = [m for m in archive.measurements(run=search.run_id) if m.state == "done"]
        proposed = archive.candidates(search.run_id)
    assert isinstance(told[-1], RunFinished)
    assert (told[-1].status, summary.status) == ("finished", "finished")
    assert "is spent" in summary.reason
    assert len(done) == sum(isinstance(e, Measured) for e in told) > 0
    assert all(m.measurement is not None for m in done)
    assert len(proposed) == summary.proposed
    assert summary.best is not None


def test_the_reason_names_the_cap_and_what_was_kept_back() -> None:
    budget = Budget(measurements=10, dollars=2.5)
    assert [BudgetSpent(name).words(budget, Spend(9)) for name in ("measurements", "dollars")] == [
        "the budget of 10 measurements is spent, except 1 kept back for the end and not used",
        "the budget of 2.5 dollars is spent",
    ]
