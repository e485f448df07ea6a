"""Searches for several targets from Python: begun, ended, loaded, taken up."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from support import synthetic_executor as synthetic
from support.cards import NARROW, WIDE, Card

import forewarp
from forewarp import events
from forewarp.core.values import Measurement
from forewarp.tools.parts import Place

BUDGET = 6


class Cards(forewarp.Executors):
    """Synthetic cards by the names that places give them."""

    def get(self, place: Place, task: forewarp.Task) -> forewarp.Executor:
        return Card(WIDE) if place.card == "wide" else Card(NARROW, slope=1.0)


class Gone(forewarp.Executors):
    """The same, of which the machines that are named are lost before anything is measured."""

    def __init__(self, *lost: str) -> None:
        super().__init__()
        self.lost = lost

    def get(self, place: Place, task: forewarp.Task) -> forewarp.Executor:
        target = WIDE if place.card == "wide" else NARROW
        return Card(target, gone_after=0 if place.card in self.lost else None)


class Held(forewarp.Executors):
    """The same, of which each makes its second measurement once the end of the search was asked for, with `press`.

    Who watches a search may hear of the first one when all others are made.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()
        self.ending = False

    def get(self, place: Place, task: forewarp.Task) -> forewarp.Executor:
        return HeldCard(WIDE, self.asked) if place.card == "wide" else HeldCard(NARROW, self.asked, slope=1.0)

    def enough(self, event: events.Event) -> None:
        if self.ending:
            self.asked.set()
        if isinstance(event, events.Measured):
            self.ending = True
            raise StopIteration

    def press(self, event: events.Event) -> None:
        if isinstance(event, events.Measured) and not self.asked.is_set():
            signal.raise_signal(signal.SIGINT)
            self.asked.set()


class HeldCard(Card):
    def __init__(self, target: forewarp.Target, asked: threading.Event, slope: float = 0.0) -> None:
        super().__init__(target, slope)
        self.asked = asked

    def answer(self, asked: synthetic.Asked) -> Measurement:
        assert not self.measured or self.asked.wait(60)
        return super().answer(asked)


def search(executors: forewarp.Executors, **more: Any) -> forewarp.JointRun:
    chosen: dict[str, Any] = {"budget": BUDGET, "holdout": False, "executors": executors} | more
    return forewarp.optimize_together(synthetic.task(), ["wide", "narrow"], **chosen)


def spent(found: forewarp.JointRun) -> list[int | None]:
    return [r.budget.spent.measurements for r in found.runs]


def test_one_search_for_several_targets(tmp_path: Path) -> None:
    seen: list[events.Event] = []
    with Cards() as cards:
        found = search(cards, on_event=seen.append)
    assert isinstance(found, forewarp.JointRun)
    assert [r.device.name for r in found.runs] == [WIDE.name, NARROW.name]
    assert {e.run for e in seen} == {r.run_id for r in found.runs}
    assert found.compromise is not None
    assert found.compromise.source
    assert all(p.is_file() for p in found.save(tmp_path / "out"))
    assert found.group_id in repr(found)


def test_it_is_loaded_and_saved_without_its_devices(tmp_path: Path) -> None:
    with Cards() as cards:
        first, second = search(cards, budget=3), search(cards, budget=3)
    assert forewarp.load_together() == second
    assert forewarp.load_together(first.group_id) == first
    assert forewarp.load_together(first.group_id[:6]) == first
    assert [forewarp.load(r.run_id).device for r in first.runs] == [r.device for r in first.runs]
    saved = forewarp.load_together(first.group_id).save(tmp_path / "out")
    assert {"report.html", "result.json"} <= {p.name for p in saved}


def test_ended_early_it_is_taken_up_under_the_same_budget() -> None:
    seen: list[events.Event] = []
    with Held() as cards:
        ended = search(cards, on_event=cards.enough)
        assert ended.status == "interrupted"
        assert forewarp.load_together(ended.group_id) == ended
        taken = forewarp.resume_together(ended.group_id, executors=cards, on_event=seen.append)
        assert (taken.group_id, taken.status) == (ended.group_id, "finished")
        assert [r.run_id for r in taken.runs] == [r.run_id for r in ended.runs]
        assert spent(taken) == [BUDGET, BUDGET]
        measured = sum(isinstance(e, events.Measured) for e in seen)
        assert measured == 2 * BUDGET - sum(n or 0 for n in spent(ended))
        with pytest.raises(forewarp.UsageError, match="is finished"):
            forewarp.resume_together(ended.group_id, executors=cards)


def test_ctrl_c_returns_what_there_is() -> None:
    before, again = signal.getsignal(signal.SIGINT), list[events.Event]()
    with Held() as cards:
        found = search(cards, on_event=cards.press)
    assert found.status == "interrupted"
    with Held() as cards:
        found = forewarp.resume_together(
            found.group_id, executors=cards, on_event=lambda e: (again.append(e), cards.press(e))
        )
    assert (found.status, bool(again)) == ("interrupted", True)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_target_that_was_lost_goes_on_alone_also_elsewhere() -> None:
    with Gone("narrow") as cards:
        found = search(cards)
    assert [r.status for r in found.runs] == ["finished", "failed"]
    seen: list[events.Event] = []
    with Cards() as cards:
        taken = forewarp.resume_together(found.group_id, "narrow-1@ray", executors=cards, on_event=seen.append)
    assert [r.status for r in taken.runs] == ["finished", "finished"]
    assert {e.run for e in seen} == {found.runs[1].run_id}
    assert taken.runs[0].budget.spent == found.runs[0].budget.spent


def test_one_that_failed_says_by_which_name_it_goes_on() -> None:
    with Gone("wide", "narrow") as cards, pytest.raises(forewarp.ForewarpError, match="gone") as told:
        search(cards)
    name = forewarp.load_together().group_id
    assert told.value.__notes__ == [
        f"forewarp.load_together({name!r}) holds what it came to; forewarp.resume_together({name!r}) goes on"
    ]
    with Gone("wide", "narrow") as cards, pytest.raises(forewarp.ForewarpError, match="gone") as told:
        forewarp.resume_together(name, executors=cards)
    assert name in told.value.__notes__[0]
    with Cards() as cards:
        assert forewarp.resume_together(name, executors=cards).status == "finished"


def test_each_verb_names_the_one_that_is_meant() -> None:
    with Held() as cards:
        found = search(cards, on_event=cards.enough)
    for verb, meant in ((forewarp.load, "load_together"), (forewarp.resume, "resume_together")):
        with pytest.raises(forewarp.UsageError, match="for one run") as refused:
            verb(found.group_id)
        assert f"forewarp.{meant}({found.group_id!r})" in refused.value.hint
    run = found.runs[0].run_id
    for verb, meant in ((forewarp.load_together, "load"), (forewarp.resume_together, "resume")):
        with pytest.raises(forewarp.UsageError, match="for several targets") as refused:
            verb(run)
        assert f"forewarp.{meant}({run!r})" in refused.value.hint
    with pytest.raises(forewarp.UsageError, match=found.group_id) as refused:
        forewarp.resume(run)
    assert "resume_together" in refused.value.hint


def test_what_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(forewarp.UsageError, match="there is no archive"):
        forewarp.load_together(archive=tmp_path / "none.db")
    with Cards() as cards:
        forewarp.optimize(
            synthetic.task(), budget=1, forecaster="none", holdout=False, card="wide", executors=cards, progress=False
        )
    with pytest.raises(forewarp.UsageError, match="no searches for several targets"):
        forewarp.load_together()
    for verb in (forewarp.load_together, forewarp.resume_together):
        with pytest.raises(forewarp.UsageError, match="there is no search 'g-00'"):
            verb("g-00")


def test_a_forecaster_of_ones_own_is_not_silently_left_out() -> None:
    own: Any = synthetic.KnowingForecaster()
    with pytest.raises(forewarp.UsageError, match="forecaster per target"):
        forewarp.optimize_together(synthetic.task(), ["wide", "narrow"], forecaster=own)
