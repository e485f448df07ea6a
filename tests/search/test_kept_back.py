"""What a run keeps back for its end: a measurement that nothing needs there is searched with, or the run says so."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import synthetic_executor as synthetic
from support.synthetic_executor import KnowingForecaster, SyntheticExecutor, seed, task

from forewarp.archive.store import Archive
from forewarp.core.budget import Budget
from forewarp.core.protocols import Executor, Forecaster, Known, Proposal
from forewarp.core.values import Build, Candidate, Measurement, Target, Task
from forewarp.gpu_runner.executors.several import SeveralExecutor
from forewarp.search.loop import Search
from forewarp.search.proposers.tunables import TunablesProposer
from forewarp.search.settings import SearchSettings
from forewarp.search.summary import RunSummary


@pytest.fixture
def archive(tmp_path: Path):
    with Archive(tmp_path / "a.db") as opened:
        yield opened


class Wrong(SyntheticExecutor):
    """Finds all wrong but the measurements of these numbers, counted from 1; dies in call number `dies`."""

    def __init__(self, *right: int, dies: int = 0, target: Target = synthetic.TARGET) -> None:
        super().__init__(target)
        self.right, self.dies, self.calls = right, dies, 0
        self.asked: list[Candidate] = []

    def compile(self, task: Task, candidate: Candidate) -> Build:
        self.step()
        return super().compile(task, candidate)

    def answer(self, asked: synthetic.Asked) -> Measurement:
        self.step()
        with self._lock:
            self.asked.append(asked.candidate)
            right = len(self.asked) in self.right
        wrong = Measurement("incorrect", "incorrect", self.target.name, "T0", device_s=0.25)
        return super().answer(asked) if right else wrong

    def step(self) -> None:
        with self._lock:
            self.calls += 1
            dies = self.calls == self.dies
        if dies:
            raise Killed


class Killed(BaseException):
    """Stands for a process that ends without a word."""


def settings(measurements: int = 3, **more: Any) -> SearchSettings:
    # Compiled one after the other, so that the calls of two runs can be compared.
    return SearchSettings(budget=Budget(measurements, **more), proposals_per_round=4, compile_threads=1, holdout=False)


def begin(archive: Archive, executor: Executor, chosen: SearchSettings, forecaster: Forecaster | None) -> Search:
    return Search.start(archive, task(), executor, TunablesProposer(), forecaster, chosen)


def purposes(archive: Archive, found: RunSummary) -> list[str]:
    return [m.purpose for m in archive.measurements(run=found.run)]


@pytest.mark.parametrize("forecaster", [KnowingForecaster(), None], ids=["forecasting", "everything"])
@pytest.mark.parametrize("count", [2, 3, 6])
def test_where_nothing_worked_the_confirmation_is_searched_with(
    archive: Archive, count: int, forecaster: Forecaster | None
) -> None:
    found = begin(archive, Wrong(), settings(count), forecaster).run()
    assert found.best is None
    assert purposes(archive, found) == ["candidate"] * count
    assert found.spend.measurements == count
    assert found.reason == f"the budget of {count} measurements is spent"


@pytest.mark.parametrize("right", [1, 2])
def test_what_worked_in_time_is_confirmed(archive: Archive, right: int) -> None:
    found = begin(archive, Wrong(right, 3), settings(), KnowingForecaster()).run()
    assert found.best is not None
    assert found.best.confirmed
    assert purposes(archive, found) == ["candidate", "candidate", "confirm"]


def test_what_only_worked_at_the_last_is_the_winner_without_a_confirmation(archive: Archive) -> None:
    found = begin(archive, Wrong(3), settings(), KnowingForecaster()).run()
    assert found.best is not None
    assert not found.best.confirmed
    assert found.spend.measurements == 3
    assert found.reason == "the budget of 3 measurements is spent"


@pytest.mark.parametrize(("right", "confirmed"), [((), 0), ((3,), 1)])
def test_several_devices_keep_it_back_until_all_they_measure_is_there(
    archive: Archive, right: tuple[int, ...], confirmed: int
) -> None:
    devices = [Wrong(*right), Wrong(*right)]
    devices[1].asked, devices[1]._lock = devices[0].asked, devices[0]._lock  # they count together
    chosen = replace(settings(4), measure_per_round=4)
    found = begin(archive, SeveralExecutor(devices), chosen, KnowingForecaster()).run()
    assert found.spend.measurements == 4
    assert purposes(archive, found).count("confirm") == confirmed


class Few:
    """Proposes four candidates, and no more."""

    name = "few"

    def propose(self, task: Task, target: Target, known: Known, count: int, rng: random.Random) -> list[Proposal]:
        return [] if known.seen else [Proposal(seed(UNROLL=u), self.name) for u in (1, 2, 4, 8)]


def test_what_was_left_out_for_it_is_measured_then(archive: Archive) -> None:
    found = Search.start(archive, task(), Wrong(), Few(), None, settings()).run()
    assert found.spend.measurements == 3
    assert len({m.candidate.sha256 for m in archive.measurements(run=found.run)}) == 3


def outcome(archive: Archive, run: str) -> dict[str, Any]:
    return {
        "proposed": [(r.round, r.candidate.sha256, r.outcome) for r in archive.candidates(run)],
        "decided": [(d.proposal, d.round, d.decision) for d in archive.decisions(run)],
        "measured": [(m.candidate.sha256, m.purpose, m.measurement) for m in archive.measurements(run=run)],
        "reason": archive.run(run).reason,
    }


def test_a_run_that_is_killed_anywhere_searches_with_it_all_the_same(tmp_path: Path) -> None:
    alone = Wrong()
    with Archive(tmp_path / "alone.db") as archive:
        expected = outcome(archive, begin(archive, alone, settings(), KnowingForecaster()).run().run)
    assert len(expected["measured"]) == 3
    for call in range(1, alone.calls + 1):
        with Archive(tmp_path / f"{call}.db") as archive:
            search = begin(archive, Wrong(dies=call), settings(), KnowingForecaster())
            with pytest.raises(Killed):
                search.run()
            Search.resume(archive, search.run_id, Wrong(), TunablesProposer(), KnowingForecaster()).run()
            assert outcome(archive, search.run_id) == expected, f"in call {call}"


@pytest.mark.parametrize("several", [False, True])
def test_seconds_of_the_device_are_kept_back_for_the_confirmation(archive: Archive, several: bool) -> None:
    executor = SeveralExecutor([SyntheticExecutor(), SyntheticExecutor()]) if several else SyntheticExecutor()
    chosen = SearchSettings(budget=Budget(device_s=3.0), early_stop=False, holdout=False)
    found = begin(archive, executor, chosen, KnowingForecaster()).run()
    assert found.best is not None
    assert found.best.confirmed
    assert purposes(archive, found) == ["candidate"] * 5 + ["confirm"]
    assert (found.spend.device_s, found.reason) == (3.0, "the budget of 3 s of device time is spent")


class Slowing(SyntheticExecutor):
    """Takes twice as long each time."""

    def answer(self, asked: synthetic.Asked) -> Measurement:
        return replace(super().answer(asked), device_s=0.5 * 2 ** len(self.measured))


def test_a_confirmation_that_another_cap_rules_out_is_said_to_be_left(archive: Archive) -> None:
    found = begin(archive, Slowing(), settings(device_s=2.5), KnowingForecaster()).run()
    assert found.best is not None
    assert found.spend.measurements == 2
    assert found.reason == "the budget of 3 measurements is spent, except 1 kept back for the end and not used"
