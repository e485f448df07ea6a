"""What ends a run before its budget is spent, what ends a timing, and what happens once a run is at its end."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.synthetic_executor import (
    BEST,
    SOURCE,
    TARGET,
    Asked,
    KnowingForecaster,
    MisleadingForecaster,
    SyntheticExecutor,
    seed,
    task,
)

from forewarp.archive.store import Archive
from forewarp.core import bins
from forewarp.core.budget import Budget
from forewarp.core.protocols import Forecaster, Known, Proposal, Proposer, Subject
from forewarp.core.values import Build, Candidate, Forecast, Measurement, Signature, Target, Task, TensorSpec
from forewarp.search import events as kinds
from forewarp.search.loop import Search
from forewarp.search.proposers.tunables import TunablesProposer
from forewarp.search.settings import SearchSettings
from forewarp.surrogate.drift import FALLBACK

# 128 bytes at 512 a second take a quarter of the reference's second, so that nothing is faster than four times.
WITH_FLOOR = replace(TARGET, memory_bandwidth=512.0)


@pytest.fixture
def archive(tmp_path: Path):
    with Archive(tmp_path / "a.db") as opened:
        yield opened


class Watching(SyntheticExecutor):
    """Notes what each measurement had to beat."""

    def __init__(self, target: Target = TARGET) -> None:
        super().__init__(target)
        self.beats: list[float | None] = []

    def measure(
        self,
        task: Task,
        candidate: Candidate,
        build: Build,
        against: Subject | None = None,
        beat: float | None = None,
    ) -> Measurement:
        self.beats.append(beat)
        return super().measure(task, candidate, build, against, beat)


class Hopeless(KnowingForecaster):
    """Sees nothing in any candidate, and is sure of it."""

    def _one(self, candidate: Candidate) -> Forecast:
        return Forecast(bins.from_normal(-3.0, 0.05), 0.95, self.name)


class Seeds:
    """Proposes the best candidate, then a few others, then nothing; counts how often it was asked."""

    name = "seeds"

    def __init__(self) -> None:
        self.asked = 0

    def propose(self, task: Task, target: Target, known: Known, count: int, rng: random.Random) -> list[Proposal]:
        self.asked += 1
        if not known.seen:
            return [Proposal(seed(**BEST), self.name)]
        return TunablesProposer().propose(task, target, known, count, rng) if len(known.seen) < 2 * count else []


def begin(
    archive: Archive,
    forecaster: Forecaster | None,
    executor: SyntheticExecutor | None = None,
    proposer: Proposer | None = None,
    **settings: object,
) -> Search:
    chosen = replace(SearchSettings(budget=Budget(measurements=7)), **settings)  # type: ignore[arg-type]
    return Search.start(
        archive, task(), executor or SyntheticExecutor(), proposer or TunablesProposer(), forecaster, chosen
    )


def until(search: Search, ends: Callable[[kinds.Event], bool]) -> list[kinds.Event]:
    """Work until an event, then drop everything as a kill would."""
    seen: list[kinds.Event] = []
    stream = search.events()
    for event in stream:
        seen.append(event)
        if ends(event):
            stream.close()  # type: ignore[attr-defined]
    return seen


def test_a_run_ends_when_forecasts_promise_nothing_for_too_long(archive: Archive) -> None:
    summary = begin(archive, Hopeless(), patience=3, audit=0.0).run()
    assert summary.status == "finished"
    assert summary.reason == "for 3 rounds no candidate promised to be worth a measurement"
    # The first few are measured whatever it says, and the winner once more.
    assert summary.spend.measurements == SearchSettings().explore + 1
    assert summary.best is not None
    assert summary.best.confirmed


def test_patience_of_zero_goes_on_until_nothing_new_comes(archive: Archive) -> None:
    summary = begin(archive, Hopeless(), proposer=Seeds(), patience=0, audit=0.0, confirm=False).run()
    assert summary.reason == "nothing passed the gate in 10 rounds"
    assert summary.measured == SearchSettings().explore


def test_a_run_ends_when_the_floor_is_within_reach(archive: Archive) -> None:
    search = begin(archive, KnowingForecaster(), Watching(WITH_FLOOR), Seeds(), reach=0.8, confirm=False)
    summary = search.run()
    assert "of what the device allows at most" in summary.reason
    assert summary.measured == 1
    assert "of what the device allows" not in begin(archive, KnowingForecaster(), proposer=Seeds()).run().reason


def test_a_run_that_was_killed_within_reach_asks_nobody_for_more(archive: Archive) -> None:
    search = begin(archive, KnowingForecaster(), Watching(WITH_FLOOR), Seeds(), reach=0.8, confirm=False)
    until(search, lambda e: isinstance(e, kinds.Measured))
    again = Seeds()
    resumed = Search.resume(archive, search.run_id, Watching(WITH_FLOOR), again, KnowingForecaster())
    assert "of what the device allows" in resumed.run().reason
    assert again.asked == 0


def test_only_a_picked_candidate_has_something_to_beat(archive: Archive) -> None:
    executor = Watching()
    search = begin(archive, KnowingForecaster(error=1.2), executor, min_improvement=0.0)
    told = [e for e in search.events() if isinstance(e, kinds.Measured)]
    rows = {r.measurement_id: r for r in archive.candidates(search.run_id)}
    best = 0.0
    for event, beat in zip(told, executor.beats, strict=True):
        row = rows.get(event.measurement)
        if not best or row is None or (row.decision and row.decision.numbers.get("explore")):
            assert beat is None
        else:
            assert beat == pytest.approx(best)
        best = event.best or best
    assert [e.purpose for e in told].count("confirm") == 1
    # What was measured to explore, and the confirmation.
    assert sum(beat is None for beat in executor.beats) == 1 + SearchSettings().explore


def test_an_ambiguous_best_is_nothing_to_beat(archive: Archive) -> None:
    class Ambiguous(Watching):
        def measure(
            self,
            task: Task,
            candidate: Candidate,
            build: Build,
            against: Subject | None = None,
            beat: float | None = None,
        ) -> Measurement:
            m = super().measure(task, candidate, build, against, beat)
            return replace(m, verdict="ambiguous") if m.status == "ok" else m

    executor = Ambiguous()
    begin(archive, KnowingForecaster(), executor).run()
    assert executor.beats == [None] * len(executor.beats)


def test_timings_run_to_their_end_where_that_is_wanted(archive: Archive) -> None:
    executor = Watching()
    summary = begin(archive, KnowingForecaster(), executor, early_stop=False).run()
    assert executor.beats == [None] * summary.spend.measurements


def test_the_baseline_stops_hopeless_timings_too(archive: Archive) -> None:
    executor = Watching()
    begin(archive, None, executor, confirm=False).run()
    assert executor.beats[0] is None
    assert None not in executor.beats[2:]


# In small rounds, so that what is measured in between costs little.
MISLED = {
    "budget": Budget(measurements=30),
    "proposals_per_round": 6,
    "reconsider": 16,
    "patience": 0,
    "min_improvement": 0.0,
    "audit": 0.0,
    "confirm": False,
}


def test_forecasts_that_mislead_are_found_out_and_everything_is_measured(archive: Archive) -> None:
    executor = Watching()
    search = begin(archive, MisleadingForecaster(), executor, **MISLED)
    told = list(search.events())
    places = [i for i, e in enumerate(told) if isinstance(e, kinds.Alarmed)]
    assert places
    alarm = told[places[0]]
    assert isinstance(alarm, kinds.Alarmed)
    assert (alarm.alarms, alarm.outcomes) == (1, FALLBACK)
    after = told[places[0] + 1 :]
    decided = [e for e in after if isinstance(e, kinds.Decided) and e.round == alarm.round + 1]
    passed = [e.kernel for e in after if isinstance(e, kinds.Accepted) and e.round == alarm.round + 1]
    measured = {e.kernel for e in decided if e.decision.action == "measure"}
    assert set(passed) < measured
    assert len(measured) == FALLBACK
    assert all(e.decision.reason.startswith("drift") for e in decided)
    assert passed
    # What is measured then is measured in full: the forecaster is to learn from it.
    drifted = {
        r.measurement_id for r in archive.candidates(search.run_id) if r.decision and r.decision.numbers.get("drift")
    }
    order = [e.measurement for e in told if isinstance(e, kinds.Measured)]
    assert all(beat is None for number, beat in zip(order, executor.beats, strict=True) if number in drifted)
    assert search.summary().alarms == len(places)
    # Once there are enough outcomes, forecasts decide again.
    again = [e for e in after if isinstance(e, kinds.Decided) and "drift" not in e.decision.numbers]
    assert any(e.decision.action == "measure" for e in again)


def test_the_alarm_of_a_killed_run_is_not_forgotten(archive: Archive) -> None:
    alone = begin(archive, MisleadingForecaster(), **MISLED)
    alone.run()
    killed = begin(archive, MisleadingForecaster(), **MISLED)
    until(killed, lambda e: isinstance(e, kinds.Alarmed))
    Search.resume(archive, killed.run_id, SyntheticExecutor(), TunablesProposer(), MisleadingForecaster()).run()
    streams = [[m.candidate.sha256 for m in archive.measurements(run=s.run_id)] for s in (alone, killed)]
    assert streams[0] == streams[1]
    assert [e.data["alarms"] for e in archive.events(killed.run_id) if e.type == "Alarmed"] == [
        e.data["alarms"] for e in archive.events(alone.run_id) if e.type == "Alarmed"
    ]


def examined(archive: Archive, run: str) -> int:
    return sum(e.type == "Examined" for e in archive.events(run))


@pytest.mark.parametrize("at", ["Examined", "Measuring", "Measured"])
def test_the_winner_is_examined_once_wherever_the_run_was_killed(archive: Archive, at: str) -> None:
    def ends(event: kinds.Event) -> bool:
        return type(event).__name__ == at and getattr(event, "purpose", "confirm") == "confirm"

    search = begin(archive, KnowingForecaster())
    until(search, ends)
    assert examined(archive, search.run_id) == 1
    executor = Watching()
    summary = Search.resume(archive, search.run_id, executor, TunablesProposer(), KnowingForecaster()).run()
    assert examined(archive, search.run_id) == 1
    assert len(executor.beats) == (at != "Measured")
    assert summary.holdout is not None
    assert summary.spend.measurements == 7


def test_a_winner_that_fails_its_confirmation_says_nothing_of_near_shapes(archive: Archive) -> None:
    class Once(SyntheticExecutor):
        def measure(
            self,
            task: Task,
            candidate: Candidate,
            build: Build,
            against: Subject | None = None,
            beat: float | None = None,
        ) -> Measurement:
            again = candidate in self.measured
            m = super().measure(task, candidate, build, against, beat)
            return Measurement("incorrect", "incorrect", TARGET.name, "T0") if again else m

    search = begin(archive, KnowingForecaster(), Once())
    summary = search.run()
    assert "failed its confirmation" in summary.note
    assert summary.holdout is None


class Sized(SyntheticExecutor):
    """Has near shapes, on which a source that says `given_sizes_only` is wrong."""

    def describe(self, task: Task) -> tuple[Signature, ...]:
        (workload,) = task.workloads["cpu"]
        x = TensorSpec("x", (int(str(workload.constants["N"])),), "float32")
        return (Signature(workload.name, (x,), {}, {}, (), (x,), 32.0, 128),)

    def answer(self, asked: Asked) -> Measurement:
        near = dict(asked.task.workloads["cpu"][0].constants) != {"N": 16}
        if near and "given_sizes_only" in asked.candidate.source:
            return Measurement("incorrect", "incorrect", TARGET.name, "T0")
        return super().answer(asked)


@pytest.mark.parametrize(("tile", "preferred"), [(BEST["TILE"], True), (16, False)])
def test_a_program_nearly_as_fast_is_preferred_where_the_fastest_is_wrong_on_near_shapes(
    archive: Archive, tile: int, *, preferred: bool
) -> None:
    narrow = seed(f"{SOURCE}int given_sizes_only;\n", **BEST)
    other = seed(**BEST | {"TILE": tile})

    class Both:
        name = "both"

        def propose(self, task: Task, target: Target, known: Known, count: int, rng: random.Random) -> list[Proposal]:
            return [] if known.seen else [Proposal(narrow, self.name), Proposal(other, self.name)]

    summary = begin(archive, None, Sized(noise=0.0), Both()).run()
    assert summary.best is not None
    assert summary.best.confirmed
    assert summary.best.candidate == (other if preferred else narrow)
    assert summary.holdout is not None
    assert summary.holdout.generalises == ("yes" if preferred else "no")


def test_without_holdout_or_confirmation_nothing_is_examined(archive: Archive) -> None:
    for settings in ({"holdout": False}, {"confirm": False}, {"budget": Budget(measurements=1)}):
        search = begin(archive, KnowingForecaster(), **settings)
        search.run()
        assert examined(archive, search.run_id) == 0
