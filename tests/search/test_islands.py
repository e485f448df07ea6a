"""Several targets in one search: runs keep step, good kernels migrate, winners visit, and a killed search goes on."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from support import synthetic_executor as synthetic
from support.cards import NARROW, WIDE, Card

from forewarp.archive.rows import CandidateRow
from forewarp.archive.store import Archive
from forewarp.core.budget import Budget
from forewarp.core.errors import UsageError, WorkerError
from forewarp.core.protocols import Known, Proposal, Subject, TargetTrials
from forewarp.core.values import Build, Candidate, Measurement, Target, Task
from forewarp.search import compromise
from forewarp.search.events import Decided, Measured
from forewarp.search.islands import MIGRANTS, NAME, Islands, Stopped
from forewarp.search.loop import Search
from forewarp.search.policy import is_visit
from forewarp.search.proposers.tunables import TunablesProposer
from forewarp.search.settings import SearchSettings

SETTINGS = SearchSettings(
    budget=Budget(measurements=14), visitors=1, holdout=False, patience=0, proposals_per_round=6, measure_per_round=2
)


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    with Archive(tmp_path / "archive.db") as made:
        yield made


def begin(archive: Archive, cards: Sequence[Card], settings: SearchSettings = SETTINGS) -> list[Search]:
    islands = Islands(archive)
    opened = [(card, islands.open(card.target.name)) for card in cards]
    return [
        Search.start(
            *(archive, synthetic.task(), card, TunablesProposer(), synthetic.KnowingForecaster()),
            replace(settings, seed=settings.seed + place),
            island=island,
        )
        for place, (card, island) in enumerate(opened)
    ]


def run(searches: Sequence[Search]) -> None:
    with ThreadPoolExecutor(len(searches)) as pool:
        for done in [pool.submit(s.run) for s in searches]:
            done.result()


def rows(archive: Archive, search: Search) -> list[CandidateRow]:
    return archive.candidates(search.run_id)


def told(archive: Archive, search: Search) -> list[tuple[object, ...]]:
    return [
        (r.round, r.candidate.sha256, r.proposer, r.decided_round, r.measurement.speedup if r.measurement else None)
        for r in rows(archive, search)
    ]


def test_good_kernels_migrate_and_are_forecast_for_their_new_target(archive: Archive) -> None:
    searches = begin(archive, [Card(WIDE), Card(NARROW, slope=1.0)])
    run(searches)
    for search, other in zip(searches, reversed(searches), strict=True):
        came = [r for r in rows(archive, search) if r.proposer == NAME and not (r.decision and is_visit(r.decision))]
        origin = {r.candidate.sha256: r for r in rows(archive, other)}
        assert came
        assert all(r.forecast is not None and r.note.startswith("S = ") for r in came if r.outcome == "passed")
        for row in came:
            decided = origin[row.candidate.sha256].decided_round
            assert decided is not None
            assert decided < row.round
        assert max(sum(r.round == n for r in came) for n in {r.round for r in came}) <= MIGRANTS


def test_each_winner_is_measured_on_every_target_within_the_budget(archive: Archive) -> None:
    searches = begin(archive, [Card(WIDE), Card(NARROW, slope=2.0)])
    run(searches)
    names = {s.summary().target: s.run_id for s in searches}
    found = compromise.compare(archive, names)
    assert {target for e in found for target in e.won} == set(names)
    assert all(set(e.measured) == set(names) for e in found if e.won)
    for search in searches:
        spend = archive.spend(search.run_id)
        assert spend.measurements <= 14
        assert search.summary().best is not None


def test_the_compromise_is_the_best_geometric_mean_of_what_was_measured_everywhere(archive: Archive) -> None:
    searches = begin(archive, [Card(WIDE), Card(NARROW, slope=2.0)])
    run(searches)
    first, *others = compromise.compare(archive, {s.summary().target: s.run_id for s in searches})
    assert first.mean is not None
    speedups = [m.speedup or 0.0 for m in first.measured.values()]
    assert first.mean.speedup == pytest.approx((speedups[0] * speedups[1]) ** 0.5)
    assert first.mean.low < first.mean.speedup < first.mean.high
    assert first.mean.worst == pytest.approx(min(speedups))
    assert all(e.mean is None or e.mean.speedup <= first.mean.speedup for e in others)


def test_the_same_seed_finds_the_same_whichever_device_is_faster(archive: Archive, tmp_path: Path) -> None:
    searches = begin(archive, [Card(WIDE), Card(NARROW, slope=1.0)])
    run(searches)
    with Archive(tmp_path / "again.db") as other:
        again = begin(other, [Slow(WIDE), Card(NARROW, slope=1.0)])
        run(again)
        assert [told(archive, s) for s in searches] == [told(other, s) for s in again]


class Slow(Card):
    """Takes its time before each measurement."""

    def measure(
        self,
        task: Task,
        candidate: Candidate,
        build: Build,
        against: Subject | None = None,
        beat: float | None = None,
    ) -> Measurement:
        threading.Event().wait(0.03)
        return super().measure(task, candidate, build, against, beat)


def test_a_target_that_is_lost_does_not_hold_up_the_others(archive: Archive) -> None:
    good, bad = begin(archive, [Card(WIDE), Card(NARROW, gone_after=3)])
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.submit(good.run), pool.submit(bad.run)
        assert first.result().status == "finished"
        with pytest.raises(WorkerError):
            second.result()
    assert archive.run(bad.run_id).status == "failed"
    best = good.summary().best
    assert best is not None
    assert best.confirmed


@pytest.mark.parametrize("after", [1, 4, 9, 12])
def test_a_stopped_search_goes_on_and_measures_nothing_twice(archive: Archive, after: int) -> None:
    cards = [Card(WIDE), Card(NARROW, slope=1.0)]
    searches = begin(archive, cards)

    def stopping(search: Search) -> None:
        seen = 0
        for event in search.events():
            seen += isinstance(event, Measured)
            if seen >= after:
                for s in searches:
                    s.stop()

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(stopping, s) for s in searches]:
            done.result()
    islands, again = Islands(archive), list[Search]()
    for card, search in zip(cards, searches, strict=True):
        row = archive.run(search.run_id)
        if row.status == "finished":
            islands.ended(card.target.name, row.id)
            continue
        island = islands.open(card.target.name)
        again.append(
            Search.resume(archive, row.id, card, TunablesProposer(), synthetic.KnowingForecaster(), island=island)
        )
    run(again)
    for card, search in zip(cards, searches, strict=True):
        assert archive.run(search.run_id).status == "finished"
        done = archive.measurements(run=search.run_id)
        assert [m.state for m in done] == ["done"] * len(done)
        assert archive.spend(search.run_id).measurements == len(done) == len(card.measured) <= 14


def test_what_cannot_be_taken_in_does_not_come(archive: Archive) -> None:
    islands = Islands(archive)
    free, closed = islands.open(WIDE.name), islands.open(NARROW.name, able=lambda _: False)
    searches = [
        Search.start(
            *(archive, synthetic.task(), Card(target), TunablesProposer(), synthetic.KnowingForecaster()),
            SETTINGS,
            island=island,
        )
        for target, island in ((WIDE, free), (NARROW, closed))
    ]
    run(searches)
    assert not any(r.proposer == NAME for r in rows(archive, searches[1]))
    assert compromise.compare(archive, {NARROW.name: searches[1].run_id})[0].mean is not None


def test_waiting_ends_with_a_stop(archive: Archive) -> None:
    islands, stop = Islands(archive), threading.Event()
    waiting, _ = islands.open("a"), islands.open("b")
    waiting.enter("r-1", stop)
    stop.set()
    with pytest.raises(Stopped):
        waiting.migrants(1, set(), 4)
    with pytest.raises(Stopped):
        waiting.visitors()


def test_a_visit_is_decided_as_one_and_timed_in_full(archive: Archive) -> None:
    searches = begin(archive, [Card(WIDE), Card(NARROW, slope=3.0)], replace(SETTINGS, measure_per_round=1))
    events = {s.run_id: list[object]() for s in searches}

    def read(search: Search) -> None:
        events[search.run_id].extend(search.events())

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(read, s) for s in searches]:
            done.result()
    visits = [e.kernel for found in events.values() for e in found if isinstance(e, Decided) and is_visit(e.decision)]
    assert visits
    for search in searches:
        for row in rows(archive, search):
            if row.candidate.sha256 in visits and row.decision and is_visit(row.decision) and row.measurement:
                assert not row.measurement.stopped_early


class Asking(synthetic.KnowingForecaster):
    """Takes down what it is lent."""

    def __init__(self) -> None:
        super().__init__()
        self.lent: list[dict[str, list[str]]] = []

    def lend(self, task: Task, target: Target, elsewhere: Mapping[str, TargetTrials]) -> None:
        self.lent.append(
            {name: [t.subject.candidate.sha256 for t in there.trials] for name, there in elsewhere.items()}
        )


def test_a_forecaster_that_borrows_gets_what_the_others_measured_in_earlier_rounds(archive: Archive) -> None:
    islands, asking = Islands(archive), [Asking(), Asking()]
    searches = [
        Search.start(
            *(archive, synthetic.task(), Card(target), TunablesProposer(), forecaster, SETTINGS),
            island=islands.open(target.name),
        )
        for target, forecaster in zip((WIDE, NARROW), asking, strict=True)
    ]
    run(searches)
    for forecaster, other, name in zip(asking, reversed(searches), (NARROW.name, WIDE.name), strict=True):
        assert forecaster.lent[0] == {}
        sizes = [len(lent.get(name, [])) for lent in forecaster.lent]
        assert sizes == sorted(sizes)
        measured = {r.candidate.sha256 for r in rows(archive, other) if r.measurement}
        assert set(forecaster.lent[-1][name]) <= measured
        assert sizes[-1] > 0


def test_what_visits_is_what_won_by_itself_however_late_it_is_asked_for(archive: Archive) -> None:
    # On equal cards, the better of the two winners leads on both as soon as it has visited.
    searches = begin(archive, [Card(WIDE), Card(NARROW)], replace(SETTINGS, seed=20, budget=Budget(measurements=4)))
    run(searches)
    ended = {s.summary().target: s for s in searches}
    visited = {name: _visited(archive, search) for name, search in ended.items()}
    assert all(visited.values())
    for name, search in ended.items():
        islands = Islands(archive)
        for other in set(ended) - {name}:
            islands.ended(other, ended[other].run_id)
        late = islands.open(name)
        late.enter(search.run_id, threading.Event())
        own = {v.candidate.sha256 for v in late.visitors()}
        assert own.isdisjoint(*(visited[other] for other in set(ended) - {name}))
        assert visited[name] <= own


def _visited(archive: Archive, search: Search) -> set[str]:
    return {r.candidate.sha256 for r in rows(archive, search) if r.decision and is_visit(r.decision)}


def test_a_run_that_another_process_works_on_keeps_nobody_waiting(archive: Archive) -> None:
    free, held = begin(archive, [Card(WIDE), Card(NARROW)])
    archive.set_status(held.run_id, "running", owner="elsewhere:1:1")
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.submit(free.run), pool.submit(held.run)
        with pytest.raises(UsageError, match="elsewhere"):
            second.result()
        assert first.result().status == "finished"


class Counting(TunablesProposer):
    """Counts how often it is asked, and takes its time over the second answer."""

    def __init__(self, second_s: float = 0.0) -> None:
        super().__init__()
        self.asked, self.second_s = 0, second_s

    def propose(self, task: Task, target: Target, known: Known, count: int, rng: random.Random) -> list[Proposal]:
        self.asked += 1
        if self.asked == 2:
            threading.Event().wait(self.second_s)
        return super().propose(task, target, known, count, rng)


def test_who_has_no_budget_left_after_waiting_asks_for_nothing_more(archive: Archive) -> None:
    islands, quick = Islands(archive), Counting()
    searches = [
        Search.start(
            *(archive, synthetic.task(), Card(target), proposer, synthetic.KnowingForecaster()),
            replace(SETTINGS, budget=budget),
            island=islands.open(target.name),
        )
        for target, proposer, budget in (
            (WIDE, quick, Budget(wall_s=0.5)),
            (NARROW, Counting(second_s=0.7), Budget(measurements=6)),
        )
    ]
    run(searches)
    assert quick.asked <= 2
    assert "wall time" in searches[0].summary().reason
