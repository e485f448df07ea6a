"""Runs whose forecaster is a cascade: what is asked of whom, what it costs, and what outlives a failure or a kill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from support.synthetic_executor import KnowingForecaster, SyntheticExecutor, task

from forewarp.archive.store import Archive
from forewarp.core.budget import Budget
from forewarp.core.errors import ModelError
from forewarp.core.protocols import Subject, Trial
from forewarp.core.values import Cost, Forecast, Target, Task
from forewarp.report.documents import SearchDocument
from forewarp.report.tally import Tally
from forewarp.search import events as kinds
from forewarp.search.loop import Search
from forewarp.search.proposers.tunables import TunablesProposer
from forewarp.search.settings import SearchSettings
from forewarp.surrogate.cascade import CascadeForecaster
from forewarp.tools.run_report import oracles, report


class Paid(KnowingForecaster):
    """Knows more than the first tier, and takes money; refuses, or says nothing that can be read, when told to."""

    name = "llm:paid"

    def __init__(self) -> None:
        super().__init__(0.1)
        self.asked: list[str] = []
        self.down = self.malformed = False

    def forecast(
        self, task: Task, target: Target, subjects: Sequence[Subject], history: Sequence[Trial]
    ) -> list[Forecast]:
        if self.down:
            raise ModelError("the provider is down")
        self.asked += [s.candidate.sha256 for s in subjects]
        raw_sum = 0.0 if self.malformed else 1.0
        return [
            replace(f, cost=Cost(0.1, 900, 100, 0.01), raw_sum=raw_sum)
            for f in super().forecast(task, target, subjects, history)
        ]


def cascade(paid: Paid, limit: int = 3) -> CascadeForecaster:
    return CascadeForecaster(KnowingForecaster(0.6), paid, expected=Cost(dollars=0.01), limit=limit)


@pytest.fixture
def archive(tmp_path: Path):
    with Archive(tmp_path / "a.db") as opened:
        yield opened


def begin(archive: Archive, forecaster: CascadeForecaster, measurements: int = 10) -> Search:
    settings = SearchSettings(budget=Budget(measurements=measurements), proposals_per_round=12)
    return Search.start(archive, task(), SyntheticExecutor(), TunablesProposer(), forecaster, settings)


def test_tiers_are_counted_priced_and_told(archive: Archive) -> None:
    paid = Paid()
    search = begin(archive, cascade(paid))
    said = list(search.events())
    found = search.summary()
    assert len(paid.asked) == len(set(paid.asked)) > 0
    first, second = found.tiers
    assert (first.tier, first.candidates) == ("knowing", found.considered)
    assert (second.tier, second.candidates) == ("llm:paid", len(paid.asked))
    assert second.candidates < first.candidates
    assert second.cost.dollars == pytest.approx(0.01 * len(paid.asked))
    assert found.spend.dollars == pytest.approx(second.cost.dollars)
    told = [e for e in said if isinstance(e, kinds.Escalated)]
    assert sum(e.candidates for e in told) == len(paid.asked)
    document = SearchDocument(command="show", **dict(report(archive, search.run_id)))
    assert [t.candidates for t in document.tiers] == [first.candidates, second.candidates]
    asked = f"{len(paid.asked)} forecast by llm:paid (${0.01 * len(paid.asked):.2f})"
    assert oracles(document) == (
        f"Candidates: {first.candidates} forecast by knowing, {asked}, {document.counts.measured} measured"
    )


def test_a_round_outlives_a_model_that_is_down(archive: Archive) -> None:
    paid = Paid()
    paid.down = True
    search = begin(archive, cascade(paid), measurements=6)
    missing = [e for e in search.events() if isinstance(e, kinds.Unanswered)]
    found = search.summary()
    assert found.status == "finished"
    assert found.measured > 3
    assert (missing[0].forecaster, missing[0].problem) == ("llm", "the provider is down")
    assert all(e.candidates > 0 for e in missing)
    assert [t.tier for t in found.tiers] == ["knowing"]
    notes = [f.rationale for _, f in archive.forecasts(search.run_id)]
    assert any("the provider is down" in note for note in notes)
    document = SearchDocument(command="show", **dict(report(archive, search.run_id)))
    assert ", no language model (each forecast's rationale says why), " in oracles(document)


def test_a_reply_that_cannot_be_read_is_told(archive: Archive) -> None:
    paid = Paid()
    paid.malformed = True
    search = begin(archive, cascade(paid), measurements=6)
    said = list(search.events())
    tier = next(t for t in search.summary().tiers if t.tier == "llm:paid")
    assert tier.unread == tier.candidates == len(paid.asked)
    missing = [e for e in said if isinstance(e, kinds.Unanswered)]
    assert {e.forecaster for e in missing} == {"llm:paid"}
    assert sum(e.candidates for e in missing) == len(paid.asked) > 0
    assert Tally().see(missing[0]).startswith("llm:paid gave no usable answer for ")


def test_a_resumed_run_does_not_buy_again(archive: Archive) -> None:
    before = Paid()
    search = begin(archive, cascade(before))
    for event in search.events():
        if before.asked and isinstance(event, kinds.Measured):
            search.stop()
    after = Paid()
    again = Search.resume(archive, search.run_id, SyntheticExecutor(), TunablesProposer(), cascade(after))
    found = again.run()
    assert found.status == "finished"
    assert not set(before.asked) & set(after.asked)
    assert found.tiers[1].candidates == len(before.asked) + len(after.asked)
    assert found.spend.dollars == pytest.approx(0.01 * found.tiers[1].candidates)
