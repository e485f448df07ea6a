"""What is known of a run is the same whether it was watched or read from the archive, and says what comes next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.synthetic_executor import SyntheticExecutor, seed, task

from forewarp.archive.rows import CandidateRow, MeasurementRow
from forewarp.archive.store import Archive
from forewarp.core import bins
from forewarp.core.budget import Budget
from forewarp.core.protocols import Proposal
from forewarp.core.values import Build, Candidate, Cost, Decision, Forecast, Measurement
from forewarp.search.events import Measuring
from forewarp.search.loop import Search
from forewarp.search.proposers.tunables import TunablesProposer
from forewarp.search.settings import SearchSettings
from forewarp.search.state import MAX_FRUITLESS_ROUNDS, NextAction, RunState, pending
from forewarp.surrogate.calibration import Recalibrated
from forewarp.surrogate.learned import LearnedForecaster

SETTINGS = SearchSettings(budget=Budget(measurements=10), patience=3, reach=0.9)
BUILD = Build("ok", 0.01, binary_sha256="b")


def told(state: RunState, settings: SearchSettings) -> dict[str, Any]:
    """Everything that a state answers."""
    return {
        "rows": state.rows,
        "trials": state.trials,
        "watch": state.watch,
        "round": state.round,
        "best": state.best,
        "incumbent": state.incumbent,
        "barren": state.barren,
        "fruitless": state.fruitless,
        "decided": state.is_decided,
        "fresh": state.fresh,
        "chosen": state.chosen,
        "open": state.open(settings.reconsider),
        "attempts": list(state.known.attempts),
        "seen": state.known.seen,
        "next": pending(state, settings),
    }


def compared(archive: Archive, search: Search, settings: SearchSettings) -> int:
    """Compare the living state with the archive's at every event of a run; returns how many there were."""
    count = 0
    for event in search.events():
        count += 1
        live = search._run.state
        loaded = RunState.load(archive, search.run_id, forecasting=True)
        if isinstance(event, Measuring) and event.purpose == "candidate":
            # Whoever takes this over owes what was announced; nobody here does yet.
            owed = pending(loaded, settings)
            assert owed == pending(live, settings)
            row = loaded.rows[owed.proposals[0]]
            assert row.measurement_id == event.measurement
            loaded.put(replace(row, measurement_id=None))
        assert told(loaded, settings) == told(live, settings), event
    return count


def test_a_living_state_is_what_the_archive_tells_at_every_event(tmp_path: Path) -> None:
    settings = SearchSettings(
        seed=3, budget=Budget(measurements=9), proposals_per_round=6, measure_per_round=2, audit=0.5, audit_budget=1.0
    )
    with Archive(tmp_path / "a.db") as archive:
        parts = task(), SyntheticExecutor(), TunablesProposer(), Recalibrated(LearnedForecaster())
        search = Search.start(archive, *parts, settings)
        assert compared(archive, search, settings) > 50
        assert any(d.decision.numbers.get("audit") for d in archive.decisions(search.run_id))


def test_so_it_is_after_a_resume(tmp_path: Path) -> None:
    settings = SearchSettings(seed=3, budget=Budget(measurements=7), proposals_per_round=6)
    with Archive(tmp_path / "a.db") as archive:
        parts = SyntheticExecutor(), TunablesProposer(), Recalibrated(LearnedForecaster())
        first = Search.start(archive, task(), *parts, settings)
        stream = first.events()
        while not isinstance(next(stream), Measuring):
            pass
        stream.close()  # type: ignore[attr-defined]
        again = Search.resume(archive, first.run_id, *parts)
        # It owes a measurement, and hears so from the archive.
        live = iter(again.events())
        next(live)
        assert pending(again._run.state, settings).kind == "measure"
        rest = list(live)
        loaded = RunState.load(archive, first.run_id, forecasting=True)
        assert told(loaded, settings) == told(again._run.state, settings)
        assert len(rest) > 20


class Story:
    """A state to which things happen, with archive rows as they would be."""

    def __init__(self, *, forecasting: bool = True) -> None:
        self.state = RunState(forecasting=forecasting)
        self.numbers: Iterator[int] = iter(range(1, 1000))
        self.measured = 0

    def propose(self, number: int, count: int = 2) -> list[int]:
        self.state.begin(number)
        made: list[int] = []
        for place in range(count):
            made.append(next(self.numbers))
            candidate = Candidate(seed().source, "cpp", {"TILE": made[-1]})
            self.state.put(CandidateRow.proposed(made[-1], number, place, Proposal(candidate, "told")))
        return made

    def change(self, proposal: int, **fields: Any) -> None:
        self.state.put(replace(self.state.rows[proposal], **fields))

    def gate(self, *proposals: int, outcome: str = "passed") -> None:
        for p in proposals:
            self.change(p, outcome=outcome, build=BUILD if outcome == "passed" else None)

    def forecast(self, number: int, *proposals: int, cost: Cost | None = None, mean: float = 0.0) -> None:
        for p in proposals:
            made = Forecast(bins.from_normal(mean, 0.5), 0.9, "told", cost=cost or Cost())
            self.change(p, forecast=made, forecast_round=number)

    def decide(self, number: int, measure: list[int], skip: list[int], **numbers: float) -> None:
        for order, p in enumerate(measure):
            decision = Decision("measure", "", 1.0, {"order": float(order), **numbers})
            self.change(p, decision=decision, decided_round=number)
        for p in skip:
            self.change(p, decision=Decision("skip", "", 1.0 / p), decided_round=number)

    def measure(self, proposal: int, speedup: float | None, **fields: Any) -> None:
        self.measured += 1
        status = "ok" if speedup else "incorrect"
        verdict = "faster" if speedup else "incorrect"
        low, high = (speedup * 0.9, speedup * 1.1) if speedup else (None, None)
        m = replace(Measurement(status, verdict, "t", "T0", "reference", speedup, low, high), **fields)  # type: ignore[arg-type]
        self.change(proposal, measurement_id=self.measured, measurement=m)
        row = self.state.rows[proposal]
        self.state.add(
            MeasurementRow(
                *(self.measured, "r", proposal, "candidate", "s", "t", row.candidate, "reference", "done", "", ""),
                *(row.build, m),
            )
        )

    def next(self, settings: SearchSettings = SETTINGS, floor: float | None = None) -> NextAction:
        return pending(self.state, settings, floor)


def finish(reason: str) -> NextAction:
    return NextAction("finish", reason=reason)


def propose(story: Story, number: int) -> NextAction:
    assert story.state.round + 1 == number
    return NextAction("propose")


def decided(story: Story, *, speedup: float | None = 1.5) -> list[int]:
    """Tell one whole round: the first candidate was measured, the second one skipped."""
    made = story.propose(story.state.round + 1)
    story.gate(*made)
    story.forecast(story.state.round, *made)
    story.decide(story.state.round, made[:1], made[1:])
    story.measure(made[0], speedup)
    return made


def test_a_round_goes_from_proposing_to_measuring() -> None:
    story = Story()
    assert story.next() == propose(story, 0)
    made = story.propose(0, 3)
    assert story.next() == NextAction("check", tuple(made))
    story.gate(made[0])
    assert story.next() == NextAction("check", tuple(made[1:]))
    story.gate(made[1])
    story.gate(made[2], outcome="compile_error")
    assert story.next() == NextAction("forecast", tuple(made[:2]))
    story.forecast(0, *made[:2])
    assert story.next() == NextAction("decide", tuple(made[:2]))
    story.decide(0, [made[1], made[0]], [])
    assert story.next() == NextAction(
        "measure",
        (
            made[1],
            made[0],
        ),
    )
    story.measure(made[1], 1.5)
    assert story.next() == NextAction("measure", (made[0],))
    story.measure(made[0], None)
    assert story.next() == propose(story, 1)


def test_what_was_announced_and_has_no_result_is_owed() -> None:
    story = Story()
    made = story.propose(0)
    story.gate(*made)
    story.forecast(0, *made)
    story.decide(0, made[:1], made[1:])
    story.change(made[0], measurement_id=7)
    assert story.next() == NextAction("measure", (made[0],))
    assert story.state.rows[made[0]].measurement_id == 7


def test_without_a_forecaster_nobody_is_asked_and_what_there_was_no_budget_for_comes_again() -> None:
    story = Story(forecasting=False)
    made = story.propose(0)
    story.gate(*made)
    assert story.next() == NextAction("decide", tuple(made))
    story.decide(0, made[:1], made[1:])
    story.measure(made[0], 1.5)
    assert story.next() == propose(story, 1)
    story.propose(1, 0)
    assert story.next() == NextAction("decide", tuple(made[1:]))
    story.decide(1, made[1:], [])
    for proposal in made[1:]:
        story.measure(proposal, 1.2)
    assert story.next() == propose(story, 2)
    story.propose(2, 0)
    assert story.next() == finish("there are no more candidates")


def test_skips_are_asked_about_again_the_best_first_unless_they_were_paid_for() -> None:
    story = Story()
    first = story.propose(0, 4)
    story.gate(*first)
    story.forecast(0, *first[:3])
    story.forecast(0, first[3], cost=Cost(input_tokens=5))
    story.decide(0, [], first)
    story.propose(1, 0)
    assert story.next() == NextAction("forecast", tuple(first[:3]))
    # Their scores fall with their numbers, so that the first ones are the best.
    assert story.next(replace(SETTINGS, reconsider=2)) == NextAction("forecast", tuple(first[:2]))
    story.forecast(1, *first[:3])
    assert story.next() == NextAction("decide", tuple(first))
    assert story.next(replace(SETTINGS, reconsider=0)) == finish("there are no more candidates")


def test_a_cascade_is_asked_anew_because_its_free_tier_is() -> None:
    story = Story()
    (made,) = story.propose(0, 1)
    story.gate(made)
    paid = Forecast(bins.from_normal(0, 1), 0.9, "dear", cost=Cost(dollars=0.1))
    story.change(made, forecast=replace(paid, tiers=(paid,)), forecast_round=0)
    story.decide(0, [], [made])
    story.propose(1, 0)
    assert story.next() == NextAction("forecast", (made,))


def test_nothing_passing_the_gate_ends_the_run() -> None:
    story = Story()
    decided(story)
    for number in range(1, MAX_FRUITLESS_ROUNDS + 1):
        assert story.next(replace(SETTINGS, reconsider=0)) == propose(story, number)
        story.gate(*story.propose(number), outcome="duplicate")
    assert story.next(replace(SETTINGS, reconsider=0)) == NextAction(
        "finish", reason="nothing passed the gate in 10 rounds"
    )


@pytest.mark.parametrize("count", [0, 2])
def test_deciding_on_what_is_old_again_and_again_is_no_progress(count: int) -> None:
    story, endless = Story(), replace(SETTINGS, patience=0)
    _, skipped = decided(story)
    for number in range(1, MAX_FRUITLESS_ROUNDS + 1):
        assert story.next(endless) == propose(story, number)
        story.gate(*story.propose(number, count), outcome="duplicate")
        if number < MAX_FRUITLESS_ROUNDS:
            assert story.next(endless) == NextAction("forecast", (skipped,))
            story.forecast(number, skipped)
            story.decide(number, [], [skipped])
    assert story.next(endless) == finish("nothing passed the gate in 10 rounds")


def test_patience_counts_rounds_without_a_pick_and_an_audit_is_none() -> None:
    story = Story()
    decided(story)
    for number in range(1, 4):
        assert story.next() == propose(story, number)
        made = story.propose(number)
        story.gate(*made)
        story.forecast(number, *made)
        story.decide(number, made[:1], made[1:], audit=1.0)
        story.measure(made[0], 1.1)
        assert story.state.barren == number
    end = story.next()
    assert end.kind == "finish"
    assert "for 3 rounds no candidate promised" in end.reason
    assert story.next(replace(SETTINGS, patience=0)) == propose(story, 4)


def test_the_floor_within_reach_ends_the_run() -> None:
    story = Story()
    decided(story, speedup=1.9)
    assert story.next() == propose(story, 1)
    assert story.next(floor=4.0) == propose(story, 1)
    assert story.next(floor=2.0) == NextAction(
        "finish", reason="the best kernel is within 5% of what the device allows at most"
    )


def test_the_best_is_trusted_whole_and_plain() -> None:
    story = Story()
    made = story.propose(0, 5)
    story.gate(*made)
    story.measure(made[0], 1.2, verdict="ambiguous")
    assert story.state.incumbent == 1.2
    story.measure(made[1], 1.1)
    assert story.state.incumbent == 1.1
    story.measure(made[2], 9.0, verdict="suspicious")
    story.measure(made[3], 9.0, stopped_early=True)
    story.measure(made[4], 9.0, verdict="ambiguous")
    assert story.state.incumbent == 1.1


def test_a_measurement_without_a_result_says_nothing() -> None:
    story = Story()
    (made,) = story.propose(0, 1)
    row = story.state.rows[made]
    story.state.add(
        MeasurementRow(
            *(1, "r", made, "candidate", "s", "t", row.candidate, "reference", "started", "", "", None, None)
        )
    )
    assert story.state.trials == []


@pytest.mark.parametrize("outcome", ["malformed", "duplicate", "same_code", "compile_error"])
def test_a_round_of_rejects_leads_to_the_next_one(outcome: str) -> None:
    story = Story(forecasting=False)
    story.gate(*story.propose(0), outcome=outcome)
    assert story.next() == propose(story, 1)
