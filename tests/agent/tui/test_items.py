from __future__ import annotations

import pytest
from support.scripted_conversation import forecast, measured
from textual.content import Content

from forewarp.agent.events import (
    Answered,
    ApprovalAsked,
    ApprovalGiven,
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
from forewarp.agent.tui.items import AnswerItem, Closing, Fold, MeasuredItem, Note, Said, ToolCallItem
from forewarp.agent.tui.prose import PIECE, draw, pieces, settled
from forewarp.agent.tui.status import fitting, parts
from forewarp.tools.parts import Amounts


def test_words_between_calls_are_one_answer_each() -> None:
    fold = Fold()
    events = [UserSaid("go"), TextDelta("\n"), TextDelta("a"), TextDelta("b"), ToolCalled("c", "t", {})]
    for event in [*events, ToolReturned("c", "t", "", {}, 0.1), TextDelta("d")]:
        fold.apply(event)
    said, first, call, second = fold.items
    assert isinstance(said, Said)
    assert isinstance(first, AnswerItem)
    assert (first.text, first.done) == ("ab", True)
    assert isinstance(call, ToolCallItem)
    assert isinstance(second, AnswerItem)
    assert not second.done
    assert fold.apply(Answered("d")) == [second]
    assert second.done
    assert fold.last_answer == "d"


def test_calls_that_run_at_once_are_told_apart() -> None:
    now = [0.0]
    fold = Fold(lambda: now[0])
    fold.apply(ToolCalled("a", "forecast_kernel", {}))
    fold.apply(ToolCalled("b", "measure_kernel", {}))
    fold.apply(Progressed("a", "compiling"))
    fold.apply(ApprovalAsked("b", "measure_kernel", "", ""))
    a, b = fold.items
    assert isinstance(a, ToolCallItem)
    assert isinstance(b, ToolCallItem)
    assert (a.progress, a.state, b.state) == ("compiling", "running", "waiting")
    fold.apply(ApprovalGiven("b", "no", "too big"))
    fold.apply(ToolReturned("b", "measure_kernel", "declined", {"error": "declined"}, 1.0))
    assert (b.state, b.approval) == ("failed", "no: too big")
    now[0] = 5.0
    fold.apply(Interrupted("forecast_kernel"))
    assert (a.state, a.seconds) == ("stopped", 5.0)
    assert not fold.running


def test_events_of_an_unknown_call_change_nothing() -> None:
    fold = Fold()
    assert fold.apply(Progressed("x", "y")) == []
    assert fold.apply(ToolReturned("x", "t", "", {}, 0.0)) == []
    assert fold.items == []


def test_candidates_measured_in_a_row_are_one_item() -> None:
    fold = Fold()
    for event in (forecast("aaaaaaaa"), measured("aaaaaaaa"), measured("bbbbbbbb"), Noted("x"), measured("cccccccc")):
        fold.apply(event)
    first, note, second = fold.items
    assert isinstance(first, MeasuredItem)
    assert [(f is not None, m.kernel[:1]) for f, m in first.rows] == [(True, "a"), (False, "b")]
    assert isinstance(note, Note)
    assert isinstance(second, MeasuredItem)


def test_only_turns_of_a_model_say_what_they_took() -> None:
    fold = Fold()
    fold.apply(Answered(""))
    assert fold.items == []
    fold.apply(Answered("", 10, 5))
    assert isinstance(fold.items[0], Closing)


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (0, "kernel a1b2c3 forecast 1.80× [1.21, 2.59] → measured 1.90× [1.86, 1.94] faster (+0.1σ)"),
        (70, "a1b2c3 1.80× [1.21, 2.59] → 1.90× [1.86, 1.94] faster (+0.1σ)"),
        (40, "a1b2c3 1.80× → 1.90× faster (+0.1σ)"),
    ],
)
def test_a_measured_candidate_takes_the_words_that_fit(width: int, line: str) -> None:
    rows = [(forecast("a1b2c3d4"), measured("a1b2c3d4"))]
    assert [c.plain for c in wording.candidates(rows, width)] == [line]


def test_a_candidate_without_forecast_or_time() -> None:
    from dataclasses import replace

    wrong = replace(measured("a1b2c3d4", None), trusted=False, flags=("throttled",), provenance="replay")
    assert wording.candidates([(None, wrong)])[0].plain == (
        "kernel a1b2c3 no forecast → replayed incorrect untrusted: throttled"
    )


def test_arguments_are_short() -> None:
    given = {"task": "softmax", "source": "a\nb\nc", "budget": 12, "path": None, "tunables": {}, "note": "x" * 200}
    assert wording.arguments(given) == "softmax, source: 3 lines, budget=12, note: 1 lines"


def test_the_body_of_a_call_is_bounded() -> None:
    body = wording.body({"source": "\n".join("x" * 1000)}, {"a": 1})
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


def test_markdown_is_drawn_without_trailing_blanks_or_backgrounds() -> None:
    text = "# Head\n\nSome *words* and `code`.\n\n```cpp\nint x;\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    drawn = draw(text, 60)
    assert drawn.plain.splitlines() == [
        "Head",
        "",
        "Some words and code.",
        "",
        "  int x;",
        "",
        "a   b",
        "─────",
        "1   2",
    ]
    assert not [s for s in drawn.spans if getattr(s.style, "background", None)]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("one\n\ntwo\n\nthree", "one\n\n"),
        ("one\ntwo", ""),
        ("one\n\n- a\n\n- b", ""),
        ("one\n\n1. a\n\n2. b\n\nend", "one\n\n1. a\n\n2. b\n\n"),
        ("```\na\n\nb\n```\n\nend", "```\na\n\nb\n```\n\n"),
        ("one\n\n    indented", ""),
    ],
)
def test_what_is_settled_cannot_change_any_more(text: str, kept: str) -> None:
    assert text[: settled(text)] == kept


def test_pieces_look_like_the_whole() -> None:
    part = "Intro\n\n## Head\n\n- a\n- b\n\n```cpp\nint x;\n\nint y;\n```\n\nEnd of *it*.\n\n"
    text = part * 60
    ends = pieces(text)
    assert len(ends) > 1
    parts = [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)]
    assert max(map(len, parts)) < 2 * PIECE
    assert Content("\n\n").join(draw(p, 60) for p in parts).plain == draw(text, 60).plain
    grown = [e for at in range(0, len(text), 7) for e in pieces(text[:at])]
    assert set(grown) <= set(ends)


def test_the_status_leaves_out_the_least_needed_first() -> None:
    settings = Settings(model="openai:gpt-test", budget=Amounts(measurements=40, dollars=2.0, tokens=100_000))
    spent = Spent(14, 192.0, 12_000, 345, 0.42, 60_000)
    told = parts(settings, spent, "NVIDIA H200")
    assert fitting(told, 200) == (
        "NVIDIA H200 · gpt-test · 14/40 measured · 3m12s device · 12.3k/100k tokens · context 50% · $0.42/2.00"
    )
    assert fitting(told, 60) == "NVIDIA H200 · gpt-test · 14/40 measured · $0.42/2.00"
    assert fitting(told, 30) == "14/40 measured · $0.42/2.00"
    assert fitting(told, 15) == "14/40 measured"
    assert fitting(told, 5) == ""


def test_an_unknown_price_is_said() -> None:
    told = parts(Settings(model=None), Spent(dollars=None))
    assert fitting(told, 200) == "auto · no model · 0/24 measured · price unknown"
