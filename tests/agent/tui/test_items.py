from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.scripted_conversation import forecast, measured
from textual.geometry import Size

from forewarp.agent.candidates import Candidates
from forewarp.agent.events import (
    Answered,
    ApprovalAsked,
    ApprovalGiven,
    ConversationEvent,
    Interrupted,
    Noted,
    Progressed,
    Spent,
    TextDelta,
    ToolCalled,
    ToolReturned,
    UserSaid,
)
from forewarp.agent.settings import Settings
from forewarp.agent.tui import wording
from forewarp.agent.tui.chat import Block
from forewarp.agent.tui.items import (
    LONGEST_PART,
    LONGEST_TEXT,
    MOST_LINES,
    CallItem,
    FailedItem,
    Item,
    Items,
    LineItem,
    MarkdownItem,
    MeasuredItem,
    UserItem,
    arguments_in_short,
    call_in_full,
)
from forewarp.agent.tui.status import fitting, parts
from forewarp.tools.parts import Amounts


class Log(Items):
    """Items with the candidates of their conversation."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.candidates = Candidates()

    def take(self, event: ConversationEvent) -> list[Item]:
        self.candidates.apply(event)
        return self.apply(event, self.candidates)


def test_words_between_calls_are_one_answer_each() -> None:
    log = Log()
    events = [UserSaid("go"), TextDelta("\n"), TextDelta("a"), TextDelta("b"), ToolCalled("c", "t", {})]
    for event in [*events, ToolReturned("c", "t", "", {}, 0.1), TextDelta("d")]:
        log.take(event)
    said, first, call, second = log.all
    assert isinstance(said, UserItem)
    assert isinstance(first, MarkdownItem)
    assert (first.text, first.done) == ("ab", True)
    assert isinstance(call, CallItem)
    assert isinstance(second, MarkdownItem)
    assert not second.done
    assert log.take(Answered("d")) == [second]
    assert second.done
    assert log.last_answer == "d"


def test_calls_that_run_at_once_are_told_apart() -> None:
    now = [0.0]
    log = Log(lambda: now[0])
    log.take(ToolCalled("a", "forecast_kernel", {}))
    log.take(ToolCalled("b", "measure_kernel", {}))
    log.take(Progressed("a", "compiling"))
    log.take(ApprovalAsked("b", "measure_kernel", "", ""))
    a, b = log.all
    assert isinstance(a, CallItem)
    assert isinstance(b, CallItem)
    assert (a.progress, a.state, b.state) == ("compiling", "running", "waiting")
    now[0] = 3.0
    assert (a.took(3.0), b.took(3.0)) == (3.0, 0.0)  # the time in which the user is asked is not the tool's
    log.take(ApprovalGiven("b", "no", "too big"))
    assert b.took(4.0) == 1.0
    log.take(ToolReturned("b", "measure_kernel", "declined", {"error": "declined"}, 1.0))
    assert (b.state, b.approval) == ("failed", "no: too big")
    now[0] = 5.0
    log.take(Interrupted("forecast_kernel"))
    assert (a.state, a.seconds) == ("stopped", 5.0)
    assert not log.running


def test_events_of_an_unknown_call_change_nothing() -> None:
    log = Log()
    assert log.take(Progressed("x", "y")) == []
    assert log.take(ToolReturned("x", "t", "", {}, 0.0)) == []
    assert log.all == []


def test_candidates_measured_in_a_row_are_one_item_and_stay_as_they_were() -> None:
    log = Log()
    names = ("aaaaaaaa", "bbbbbbbb", "cccccccc")
    for event in (*map(forecast, names), measured("aaaaaaaa"), measured("bbbbbbbb"), Noted("x"), measured("cccccccc")):
        log.take(event)
    log.take(measured("aaaaaaaa", 9.0))
    first, note, second = log.all
    assert isinstance(first, MeasuredItem)
    assert [(r.number, r.speedup) for r in first.rows] == [(1, 1.9), (2, 1.9)]
    assert isinstance(note, MarkdownItem)
    assert isinstance(second, MeasuredItem)
    assert [(r.number, r.speedup) for r in second.rows] == [(3, 1.9), (1, 9.0)]


def test_only_turns_of_a_model_say_what_they_took() -> None:
    log = Log()
    log.take(Answered(""))
    assert log.all == []
    log.take(Answered("", 10, 5))
    assert isinstance(log.all[0], LineItem)
    assert log.all[0].classes == "cost"


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (0, "#1 cuda BLOCK=256 forecast 1.80× [1.21, 2.59] → measured 1.90× [1.86, 1.94] faster (off by +0.2σ)"),
        (90, "#1 cuda BLOCK=256 1.80× [1.21, 2.59] → 1.90× [1.86, 1.94] faster (off by +0.2σ)"),
        (70, "#1 cuda BLOCK=256 1.80× → 1.90× faster (+0.2σ)"),
        (40, "#1 1.80× → 1.90× faster (+0.2σ)"),
    ],
)
def test_a_measured_candidate_takes_the_words_that_fit(width: int, line: str) -> None:
    log = Log()
    for event in (forecast("a1b2c3d4"), measured("a1b2c3d4")):
        log.take(event)
    assert log.all[0].draw(width, 0.0).plain == line


def test_a_candidate_without_forecast_or_time() -> None:
    log = Log()
    wrong = replace(measured("a1b2c3d4", None), trusted=False, flags=("throttled",), provenance="replay")
    for event in (forecast("a1b2c3d4", median=None), wrong):
        log.take(event)
    assert log.all[0].draw(90, 0.0).plain == ("#1 cuda BLOCK=256 no forecast → replayed incorrect untrusted: throttled")


def test_what_a_call_came_to_is_indented_under_it() -> None:
    log = Log()
    log.take(ToolCalled("c", "search", {"task": "softmax"}))
    log.take(ToolReturned("c", "search", "best of all " * 5, {"status": "ok"}, 1.0))
    first, *rest = log.all[0].draw(40, 0.0).plain.splitlines()
    assert first == "● search softmax  1.0 s"
    assert len(rest) > 1
    assert all(line.startswith("  best") and len(line) <= 40 for line in rest)


def test_arguments_are_short() -> None:
    given = {"task": "softmax", "source": "a\nb\nc", "budget": 12, "path": None, "tunables": {}, "note": "x" * 200}
    assert arguments_in_short(given) == "softmax, source: 3 lines, budget=12, note=" + "x" * 39 + "…"


def test_the_body_of_a_call_is_bounded() -> None:
    body = call_in_full({"source": "\n".join("x" * 1000)}, {"a": 1})
    assert "… 600 more lines" in body
    assert '"a": 1' in body


@pytest.mark.parametrize(("s", "text"), [(3.21, "3.2 s"), (45.0, "45 s"), (125.0, "2m05s"), (7500.0, "2h05m")])
def test_durations(s: float, text: str) -> None:
    assert wording.seconds(s) == text


@pytest.mark.parametrize(
    ("n", "text"), [(0, "0"), (999, "999"), (12_345, "12.3k"), (123_456, "123k"), (1_500_000, "1.5M")]
)
def test_counts(n: int, text: str) -> None:
    assert wording.amount(n) == text


def test_the_status_leaves_out_the_least_needed_first() -> None:
    settings = Settings(model="openai:gpt-test", budget=Amounts(measurements=40, dollars=2.0, tokens=100_000))
    spent = Spent(14, 192.0, 12_000, 345, 0.42, 60_000)
    told = parts(settings, spent, settings.room(), "NVIDIA H200")
    assert fitting(told, 200) == (
        "NVIDIA H200 · gpt-test · 14/40 measured · 3m12s device · 12.3k/100k tokens · context 50% · $0.42/2.00"
    )
    assert fitting(told, 60) == "NVIDIA H200 · gpt-test · 14/40 measured · $0.42/2.00"
    assert fitting(told, 30) == "14/40 measured · $0.42/2.00"
    assert fitting(told, 15) == "14/40 measured"
    assert fitting(told, 5) == ""


def test_an_unknown_price_is_said() -> None:
    told = parts(Settings(model=None), Spent(dollars=None), 1)
    assert fitting(told, 200) == "auto · no model · 0/24 measured · price unknown"


def test_the_height_of_a_block_is_that_in_the_new_width() -> None:
    block = Block(UserItem("some words " * 20))
    heights = [block.get_content_height(Size(), Size(), width) for width in (220, 60, 20)]
    assert heights == [1, 4, 14]


def test_long_answers_are_parted_between_paragraphs_and_never_within_a_program() -> None:
    paragraph, program = "word " * 300 + "\n\n", "```cuda\n" + "int a;\n\n" * 1000 + "```\n\n"
    text = paragraph * 4 + program + paragraph * 4 + "word " * 5000 + "\n\n- one\n\n  of two\n"
    items = Items()
    for start in range(0, len(text), 7):
        items.apply(TextDelta(text[start : start + 7]), Candidates())
    parts = [item.text for item in items.all if isinstance(item, MarkdownItem)]
    assert "".join(parts) == items.last_answer == text
    assert all(len(part) <= LONGEST_PART or program in part for part in parts)
    assert [part.count("```") for part in parts if "```" in part] == [2]
    assert len(parts) > 4
    assert parts[-1].endswith("- one\n\n  of two\n")


def test_an_answer_without_any_gap_is_parted_too() -> None:
    items = Items()
    items.apply(TextDelta("a" * 100_000), Candidates())
    assert [len(item.text) for item in items.all if isinstance(item, MarkdownItem)] == [*[LONGEST_PART] * 6, 4000]
    items.apply(Noted("own"), Candidates())
    items.apply(TextDelta("b"), Candidates())
    assert items.last_answer == "b"


@pytest.mark.parametrize("block", ["# x\n", "---\n", "```\n", "> a\n", "- a\n"])
def test_an_answer_of_thousands_of_short_blocks_is_parted(block: str) -> None:
    items = Items()
    items.apply(TextDelta(block * 3000), Candidates())
    parts = [item.text for item in items.all if isinstance(item, MarkdownItem)]
    assert "".join(parts) == block * 3000
    assert max(part.count("\n") for part in parts) <= 2 * MOST_LINES + 2


def test_a_long_table_stays_whole() -> None:
    items = Items()
    items.apply(TextDelta("| a |\n|---|\n" + "| 1 |\n" * 2 * MOST_LINES), Candidates())
    assert len(items.all) == 1


@pytest.mark.parametrize("state", ["running", "done", "failed"])
def test_a_text_without_end_is_drawn_in_part(state: Any) -> None:
    endless = "x" * 1_000_000
    call = CallItem("t", {"path": endless}, 0.0, state=state, progress=endless, summary=endless, expanded=True)
    call.result = {"hint": endless, "log": endless}
    for item in (call, FailedItem(endless, endless)):
        text = item.draw(100, 0.0).plain
        assert "characters left out" in text
        assert len(text) < 6 * LONGEST_TEXT


def test_the_sign_of_per_cent_stays_with_its_number() -> None:
    log = Log()
    log.take(ToolCalled("c", "search", {}))
    log.take(ToolReturned("c", "search", "2.05× [2.05, 2.06] (95 % interval) over the reference", {}, 1.0))
    for width in range(24, 60):
        rows = log.all[0].draw(width, 0.0).plain.splitlines()
        assert all(len(row) <= width for row in rows)
        assert any("(95 % " in f"{row} " for row in rows)
