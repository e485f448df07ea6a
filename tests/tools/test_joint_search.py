from __future__ import annotations

import threading
from collections.abc import Generator
from dataclasses import dataclass, field, replace

import pytest
from support.cards import NARROW, WIDE, Card, Cards, record_two
from support.recorded_pool import Recorded

from forewarp.archive.store import Archive, default_path
from forewarp.core.errors import DeviceError, UsageError, WorkerError
from forewarp.core.protocols import Executor
from forewarp.core.values import Task
from forewarp.search.events import Event, Measured, RunFinished
from forewarp.tools.joint_report import joint_report
from forewarp.tools.joint_search import JointJob, estimate_joint, open_joint, resume_joint
from forewarp.tools.parts import Amounts, Place
from forewarp.tools.search import ResumeRequest, SearchJob, SearchRequest, resume_search
from forewarp.tools.session import Executors
from forewarp.tools.targets import name_of, places_of

CARDS = [WIDE.name, NARROW.name]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record_two(tmp_path_factory.mktemp("pool"))


def request(recorded: Recorded) -> SearchRequest:
    place = Place(device="replay", pool=recorded.pool)
    return SearchRequest(task=recorded.task, place=place, budget=Amounts(measurements=8))


def test_names_of_targets_say_which_card_on_which_machines() -> None:
    here = Place(executor="ray:head:1", archive="a.db")
    made = places_of(here, ["h200, a100@ssh:me@box", "@ssh:other"])
    assert [(p.card, p.executor, p.archive) for p in made] == [
        ("h200", "ray:head:1", "a.db"),
        ("a100", "ssh:me@box", "a.db"),
        ("", "ssh:other", "a.db"),
    ]
    assert [name_of(p) for p in made] == ["h200@ray:head:1", "a100@ssh:me@box", "@ssh:other"]
    assert places_of(Place(), [name_of(p) for p in made])[1].card == "a100"


@pytest.mark.parametrize("name", ["h200", "@local", "h200@ray", "@ssh:box", "a100@ssh:me@box"])
def test_the_name_of_a_place_means_that_place(name: str) -> None:
    (place,) = places_of(Place(), [name])
    assert places_of(Place(), [name_of(place)]) == [place]


@pytest.mark.parametrize("names", [["h200,"], ["h200,h200"], ["h200", "h200"], ["@"]])
def test_names_that_say_nothing_or_twice_the_same_are_refused(names: list[str]) -> None:
    with pytest.raises(UsageError):
        places_of(Place(), names)


def test_a_run_per_target_and_what_wins_on_all_of_them(recorded: Recorded) -> None:
    with open_joint(request(recorded), CARDS) as job:
        events = list(job.events())
        found = job.result()
    assert sum(isinstance(e, RunFinished) for e in events) == 2
    assert found.status == "finished"
    assert found.source == "replay"
    assert [r.device.name for r in found.runs] == CARDS
    assert all(r.budget.spent.measurements == 8 for r in found.runs)
    assert {d for k in found.kernels for d in k.won} == set(CARDS)
    best = found.compromise
    assert best is not None
    assert best.mean is not None
    assert all(k.mean is None or k.mean.ratio <= best.mean.ratio for k in found.kernels)
    assert all(t.speedup is not None for t in best.targets)
    assert found.summary.startswith("toy on 2 targets (replay of recorded measurements): wide-1 ")
    for run in found.runs:
        assert run.best is not None
        winner = next(k for k in found.kernels if run.device.name in k.won)
        assert winner.kernel.sha256 == run.best.kernel.sha256


def test_one_target_is_no_search_for_several(recorded: Recorded) -> None:
    with pytest.raises(UsageError, match="two"), open_joint(request(recorded), ["wide-1"]):
        pass


def test_two_names_of_one_device_are_refused_before_anything_begins(recorded: Recorded) -> None:
    with pytest.raises(UsageError, match="one device"), open_joint(request(recorded), ["wide-1", "WIDE1"]):
        pass
    with Archive(default_path()) as archive:
        assert not archive.runs()


def test_a_card_that_was_not_recorded_is_told_with_those_that_were(recorded: Recorded) -> None:
    with pytest.raises(DeviceError) as told, open_joint(request(recorded), ["wide-1", "h200"]):
        pass
    assert "narrow-1" in told.value.hint


def test_each_target_is_estimated(recorded: Recorded) -> None:
    found = estimate_joint(request(recorded), CARDS)
    assert [e.device.name for e in found] == CARDS


@dataclass(frozen=True)
class Held(SearchJob):
    """A run that goes no further than its third measurement before it is asked to end.

    The threads of a search do not wait for who reads its events, and may be at the end of it before the first is read.
    """

    asked: threading.Event = field(default_factory=threading.Event)

    def events(self) -> Generator[Event]:
        for event in super().events():
            yield event
            if isinstance(event, Measured) and event.spend.measurements == 3:
                assert self.asked.wait(60)

    def stop(self) -> None:
        super().stop()
        self.asked.set()


def held(job: JointJob) -> JointJob:
    job.jobs = [Held(one.archive, one.search, one.estimate) for one in job.jobs]
    return job


def test_a_stopped_search_is_taken_up_with_its_spend(recorded: Recorded) -> None:
    with open_joint(request(recorded), CARDS) as job:
        for event in held(job).events():
            if isinstance(event, Measured) and event.spend.measurements == 3:
                job.stop()
        first = job.result()
    assert first.status == "interrupted"
    again = ResumeRequest(run_id=job.group, place=Place(pool=recorded.pool))
    with resume_joint(again) as taken:
        assert taken.group == job.group
        for _ in taken.events():
            pass
        found = taken.result()
    assert found.status == "finished"
    assert [r.budget.spent.measurements for r in found.runs] == [8, 8]
    with pytest.raises(UsageError, match="is finished"), resume_joint(again):
        pass


def test_a_search_that_is_closed_at_once_is_interrupted(recorded: Recorded) -> None:
    with open_joint(request(recorded), CARDS) as job:
        events = held(job).events()
        next(e for e in events if isinstance(e, Measured))
        events.close()
        assert job.result().status == "interrupted"


def test_a_run_of_a_search_is_not_taken_up_alone(recorded: Recorded) -> None:
    with open_joint(request(recorded), CARDS) as job:
        run = job.jobs[0].run_id
    with pytest.raises(UsageError, match=job.group) as told, resume_search(ResumeRequest(run_id=run)):
        pass
    assert job.group in told.value.hint


def test_an_unknown_search_is_said_to_be_one(recorded: Recorded) -> None:
    with open_joint(request(recorded), CARDS):
        pass
    with Archive(default_path()) as archive, pytest.raises(UsageError, match="g-zzz"):
        joint_report(archive, "g-zzz")


def live(recorded: Recorded) -> SearchRequest:
    return SearchRequest(task=recorded.task, seed_kernels=[recorded.seed], budget=Amounts(measurements=8))


def run_through(job: JointJob) -> None:
    for _ in job.events():
        pass


def test_a_machine_that_is_lost_ends_its_own_run_only(recorded: Recorded) -> None:
    cards = Cards(wide=Card(WIDE), narrow=Card(NARROW, gone_after=2))
    with open_joint(live(recorded), ["wide", "narrow"], cards) as job:
        run_through(job)
        found = job.result()
    assert [r.status for r in found.runs] == ["finished", "failed"]
    assert found.status == "failed"
    assert list(job.errors) == [found.runs[1].run_id]
    assert found.runs[0].best is not None
    assert found.compromise is None or found.compromise.mean is not None


def test_what_a_lost_machine_left_is_taken_up_beside_the_finished_run(recorded: Recorded) -> None:
    cards = Cards(wide=Card(WIDE), narrow=Card(NARROW, gone_after=2))
    with open_joint(live(recorded), ["wide", "narrow"], cards) as job:
        run_through(job)
    cards.cards["narrow"].gone_after = None
    with resume_joint(ResumeRequest(run_id=job.group), executors=cards) as again:
        assert len(again.jobs) == 1
        run_through(again)
        found = again.result()
    assert found.status == "finished"
    # Each ran on what it was given, and what it measured before it was lost is not measured again.
    for run, card in zip(found.runs, cards.cards.values(), strict=True):
        assert run.budget.spent.measurements == len(card.measured) <= 8
    assert found.compromise is not None


def test_where_every_machine_is_lost_the_search_fails(recorded: Recorded) -> None:
    cards = Cards(wide=Card(WIDE, gone_after=0), narrow=Card(NARROW, gone_after=0))
    with open_joint(live(recorded), ["wide", "narrow"], cards) as job:
        with pytest.raises(WorkerError):
            run_through(job)
        assert job.result().status == "failed"


def test_a_target_that_cannot_be_searched_leaves_no_run_behind(recorded: Recorded) -> None:
    gpu = replace(NARROW, kind="cuda")
    cards = Cards(wide=Card(WIDE), narrow=Card(gpu))
    with pytest.raises(UsageError), open_joint(live(recorded), ["wide", "narrow"], cards):
        pass
    with Archive(default_path()) as archive:
        assert not archive.runs()


class Machines(Executors):
    """Cards of one make on several machines."""

    def __init__(self, *cards: Card) -> None:
        super().__init__()
        self.cards = {f"ssh:{number}": card for number, card in enumerate(cards)}

    def get(self, place: Place, task: Task) -> Executor:
        return self.cards[place.executor]


def test_cards_of_one_make_are_found_again_on_their_machines(recorded: Recorded) -> None:
    both = [replace(WIDE, name=f"NVIDIA A100 {size}GB") for size in (40, 80)]
    machines = Machines(*map(Card, both))
    with open_joint(live(recorded), ["a100@ssh:0", "a100@ssh:1"], machines) as job:
        events = held(job).events()
        next(e for e in events if isinstance(e, Measured))
        job.stop()
        for _ in events:
            pass
    with resume_joint(ResumeRequest(run_id=job.group), executors=machines) as again:
        run_through(again)
        found = again.result()
    assert found.status == "finished"
    assert [r.device.name for r in found.runs] == [t.name for t in both]
    assert [r.budget.spent.measurements for r in found.runs] == [len(c.measured) for c in machines.cards.values()]
