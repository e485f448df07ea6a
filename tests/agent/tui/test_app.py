from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.scripted_conversation import Scripted, Step, forecast, long_past, measured
from support.terminal import until
from textual import events
from textual.pilot import Pilot
from textual.timer import Timer
from textual.widgets import Static

from forewarp.agent.events import (
    Answered,
    ApprovalAsked,
    Compacted,
    Failed,
    Noted,
    Progressed,
    Spent,
    TextDelta,
    ToolCalled,
    ToolReturned,
    UserSaid,
)
from forewarp.agent.replay import Replay
from forewarp.agent.settings import Settings
from forewarp.agent.tui import app as app_module
from forewarp.agent.tui import chat
from forewarp.agent.tui.app import ForewarpApp
from forewarp.agent.tui.approval import Approvals
from forewarp.agent.tui.candidates import CandidatesPane
from forewarp.agent.tui.chat import Block, Chat
from forewarp.agent.tui.prompt import History, Prompt
from forewarp.agent.tui.source import SourcePane

WIDE, SMALL, TINY = (120, 36), (80, 24), (60, 15)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "FRAME_S", 0.001)
    monkeypatch.setattr(Approvals, "GRACE_S", 0.001)
    tell = ForewarpApp._tell
    # What is told for a few seconds stays until a busy machine has looked.
    monkeypatch.setattr(ForewarpApp, "_tell", lambda app, text, _: tell(app, text, 600))


class Clock:
    """Time that goes only where a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def opened(
    talk: Scripted | Replay, size: tuple[int, int] = SMALL, **given: Any
) -> AsyncGenerator[tuple[ForewarpApp, Pilot[int]]]:
    app = ForewarpApp(talk, **given)
    app.animation_level = "none"
    async with app.run_test(size=size, notifications=True) as pilot:
        await pilot.pause()
        yield app, pilot


def shown(app: ForewarpApp) -> str:
    """The whole screen as plain text."""
    return "\n".join("".join(s.text for s in strip).rstrip() for strip in app.screen._compositor.render_strips())


async def seen(app: ForewarpApp, pilot: Pilot[int], *texts: str) -> None:
    await until(
        pilot,
        lambda: all(t in shown(app) for t in texts),
        lambda: f"{texts} not shown, {app.chat.children}:\n{shown(app)}",
    )


async def gone(app: ForewarpApp, pilot: Pilot[int], text: str) -> None:
    await until(pilot, lambda: text not in shown(app))


def prompt(app: ForewarpApp) -> Prompt:
    return app.query_one(Prompt)


async def say(pilot: Pilot[int], text: str) -> None:
    prompt(pilot.app).insert(text)  # type: ignore[arg-type]
    await pilot.press("enter")


async def idle(app: ForewarpApp, pilot: Pilot[int]) -> None:
    await until(pilot, lambda: not app.turns.running)
    await pilot.pause()


async def test_a_turn_is_shown_from_the_first_word_to_what_it_took() -> None:
    hold = asyncio.Event()
    script: list[Step] = [
        TextDelta("I look at **soft"),
        TextDelta("max** first."),
        ToolCalled("c1", "measure_kernel", {"task": "softmax", "source": "a\nb"}),
        Progressed("c1", "compiling"),
        forecast("a1b2c3d4"),
        hold,
        measured("a1b2c3d4"),
        ToolReturned("c1", "measure_kernel", "1.90× faster", {"verdict": "faster"}, 3.2),
        Spent(1, 2.5, 12_000, 800, 0.25, 9_000),
        Answered("", 12_000, 800, 0.25, 7.5),
    ]
    async with opened(Scripted(script), WIDE) as (app, pilot):
        await say(pilot, "Make softmax faster")
        await seen(app, pilot, "Make softmax faster", "I look at softmax first.", "measure_kernel softmax", "compiling")
        await until(pilot, lambda: "measure_kernel: compiling" in shown(app).splitlines()[-1])
        hold.set()
        await seen(app, pilot, "1.90× faster", "#1 cuda BLOCK=256 1.80× → 1.90× faster (+0.2σ)")
        await seen(app, pilot, "7.5 s · 12.0k in, 800 out · $0.25", "ready")
        for part in ("NVIDIA H200", "scripted", "1/24 measured", "2.5 s device", "12.8k tokens", "$0.25"):
            await until(pilot, lambda part=part: part in shown(app).splitlines()[-1], part)
        await until(pilot, lambda: len(app.query_one(CandidatesPane).rows) == 1)


async def test_what_goes_wrong_is_said_in_the_conversation() -> None:
    failing: list[Step] = [
        ToolCalled("c", "forecast_kernel", {"task": "nope"}),
        ToolReturned("c", "forecast_kernel", "no task nope", {"error": "no task nope", "hint": "try softmax"}, 0.1),
        Failed("model", "the provider refused", "check the key"),
    ]
    talk = Scripted(failing, [Noted("# Best\n\nnothing `yet`"), Compacted("We tried tiling.")])
    async with opened(talk) as (app, pilot):
        await say(pilot, "go")
        await seen(app, pilot, "✗ forecast_kernel nope", "→ try softmax", "the provider refused", "→ check the key")
        await say(pilot, "/best")
        await seen(app, pilot, "nothing yet", "We tried tiling.", "Summary of the conversation")


async def test_a_conversation_that_breaks_does_not_break_the_screen() -> None:
    class Broken(Scripted):
        async def say(self, text: str) -> AsyncGenerator[Any]:
            yield UserSaid(text)
            raise ZeroDivisionError("by zero")

    async with opened(Broken()) as (app, pilot):
        await say(pilot, "go")
        await seen(app, pilot, "ZeroDivisionError: by zero", "ready")


async def test_markup_is_shown_as_it_is() -> None:
    text = "print([red]x[/red], a[0])"
    script: list[Step] = [
        ToolCalled("c", "[bold]tool", {"path": text}),
        ToolReturned("c", "t", text, {}, 0.1),
        Failed("x", text),
    ]
    async with opened(Scripted(script), first=text) as (app, pilot):
        await until(pilot, lambda: shown(app).count(text) == 4)


async def test_escape_ends_a_turn_at_once_and_keeps_what_was_said() -> None:
    talk = Scripted([TextDelta("The first half"), asyncio.Event(), TextDelta("never")])
    async with opened(talk, first="go") as (app, pilot):
        await seen(app, pilot, "The first half")
        await pilot.press("escape")
        await seen(app, pilot, "The first half", "interrupted during the script", "ready")
        assert talk.interrupts == 1
        assert "never" not in shown(app)


async def test_a_running_tool_that_was_interrupted_is_shown_as_stopped() -> None:
    talk = Scripted([ToolCalled("c", "search", {"task": "softmax"}), asyncio.Event()])
    async with opened(talk, first="go") as (app, pilot):
        await seen(app, pilot, "● search softmax")
        await pilot.press("escape")
        await seen(app, pilot, "■ search softmax", "stopped")


async def test_messages_wait_for_the_end_of_the_turn_in_order() -> None:
    hold = asyncio.Event()
    talk = Scripted([hold])
    async with opened(talk, first="one") as (app, pilot):
        await say(pilot, "two")
        await say(pilot, "/best")
        await seen(app, pilot, "queued: two", "queued: /best", "2 queued")
        hold.set()
        await until(pilot, lambda: talk.said == ["one", "two", "/best"])
        await idle(app, pilot)
        await gone(app, pilot, "queued")


async def test_the_queue_comes_back_into_the_prompt() -> None:
    talk = Scripted([asyncio.Event()])
    async with opened(talk, first="one") as (app, pilot):
        await say(pilot, "two")
        await say(pilot, "three")
        await pilot.press("ctrl+u")
        assert prompt(app).whole == "two\nthree"
        await gone(app, pilot, "queued")
        await pilot.press("escape")
        await idle(app, pilot)
        assert talk.said == ["one"]


async def test_an_interrupt_gives_back_what_waits_instead_of_sending_it() -> None:
    talk = Scripted([asyncio.Event()])
    async with opened(talk, first="one") as (app, pilot):
        await say(pilot, "two")
        await pilot.press("x")
        await pilot.press("escape")
        await idle(app, pilot)
        assert prompt(app).whole == "two\nx"
        assert talk.said == ["one"]


async def test_steering_is_shown_until_it_reaches_the_model() -> None:
    first, second = asyncio.Event(), asyncio.Event()
    talk = Scripted([first, TextDelta("on it"), second], steerable=True)
    async with opened(talk, first="one") as (app, pilot):
        await until(pilot, lambda: talk.busy)
        await say(pilot, "use fp16")
        await seen(app, pilot, "steering: use fp16")
        first.set()
        await seen(app, pilot, "use fp16  steering", "on it")
        await gone(app, pilot, "steering: use fp16")
        second.set()
        await idle(app, pilot)
        assert talk.said == ["one"]


async def test_steering_that_came_too_late_is_said_next() -> None:
    class Late(Scripted):
        def steer(self, text: str) -> bool:
            return True

    hold = asyncio.Event()
    talk = Late([hold])
    async with opened(talk, first="one") as (_, pilot):
        await until(pilot, lambda: talk.busy)
        await say(pilot, "two")
        hold.set()
        await until(pilot, lambda: talk.said == ["one", "two"])


async def test_commands_do_not_steer() -> None:
    hold = asyncio.Event()
    talk = Scripted([hold], steerable=True)
    async with opened(talk, first="one") as (app, pilot):
        await until(pilot, lambda: talk.busy)
        await say(pilot, "/best")
        await seen(app, pilot, "queued: /best")
        hold.set()
        await until(pilot, lambda: talk.said == ["one", "/best"])


def asked(call: str = "c1", text: str = "") -> ApprovalAsked:
    return ApprovalAsked(call, "measure_kernel", "measure k.cu on softmax", "forecast 1.8×, P(better) 61 %", text)


def asking(*calls: str, text: str = "") -> Iterable[Step]:
    for call in calls:
        yield ToolCalled(call, "measure_kernel", {"path": f"{call}.cu"})
        yield asked(call, text)
        yield ToolReturned(call, "measure_kernel", "measured", {}, 1.0)


@pytest.mark.parametrize(("key", "reply"), [("y", "yes"), ("a", "always")])
async def test_a_question_is_answered_by_one_key(key: str, reply: str) -> None:
    talk = Scripted(asking("c1"))
    async with opened(talk, first="go") as (app, pilot):
        await seen(app, pilot, "Allow measure_kernel?", "measure k.cu on softmax", "P(better) 61 %", "waiting for you")
        await until(pilot, lambda: app.query_one(Approvals).has_focus)
        await pilot.press(key)
        await idle(app, pilot)
        assert talk.answers == [("c1", reply, "")]
        await gone(app, pilot, "Allow")
        await seen(app, pilot, f"approval: {reply}")
        await until(pilot, lambda: prompt(app).has_focus)


async def test_a_no_may_say_why() -> None:
    talk = Scripted(asking("c1", "c2"))
    async with opened(talk, first="go") as (app, pilot):
        await until(pilot, lambda: app.query_one(Approvals).has_focus)
        await pilot.press("n", *"too big", "enter")
        await until(pilot, lambda: app.query_one(Approvals).has_focus)
        await pilot.press("n", "enter")
        await idle(app, pilot)
        assert talk.answers == [("c1", "no", "too big"), ("c2", "no", "")]
        await seen(app, pilot, "approval: no: too big")


async def test_questions_are_answered_in_order() -> None:
    async with opened(Scripted()) as (app, pilot):
        bar = app.query_one(Approvals)
        bar.ask(asked("c1"))
        bar.ask(asked("c2"))
        await seen(app, pilot, "1 of 2")
        assert bar.current is not None
        assert bar.current.call == "c1"
        bar.settle("c1")
        assert bar.current.call == "c2"


@pytest.mark.parametrize("size", [WIDE, TINY])
async def test_what_would_be_written_is_shown_below_the_question(size: tuple[int, int]) -> None:
    diff = "--- a.cu\n+++ a.cu\n@@ -1 +1 @@\n-old\n+new\n" + "\n".join(f"+line {n}" for n in range(50))
    async with opened(Scripted(asking("c1", text=diff)), size, first="go") as (app, pilot):
        await seen(app, pilot, "y yes", "n no", "measure k.cu on softmax", "+++ a.cu", "Ask, /command")
        await until(pilot, lambda: app.query_one(Approvals).has_focus)
        await pilot.press(*["pagedown"] * 8)
        await seen(app, pilot, "+line 49", "y yes")


async def test_what_is_being_typed_answers_no_question() -> None:
    hold = asyncio.Event()
    talk = Scripted([hold, *asking("c1")])
    async with opened(talk, first="go") as (app, pilot):
        await pilot.press(*"so")
        hold.set()
        await seen(app, pilot, "Allow measure_kernel?")
        await pilot.press(*"yay")
        assert prompt(app).whole == "soyay"
        assert talk.answers == []
        await pilot.press("enter")
        await until(pilot, lambda: app.query_one(Approvals).has_focus)
        # Faster than the prompt gets the keys: the last letter would be an answer.
        for letter in "hey":
            app.post_message(events.Key(letter, letter))
        await until(pilot, lambda: len(prompt(app).whole) == 3)
        assert prompt(app).whole == "hey"
        assert talk.answers == []


async def test_escape_at_a_question_ends_the_turn() -> None:
    talk = Scripted(asking("c1"))
    async with opened(talk, first="go") as (app, pilot):
        await until(pilot, lambda: app.query_one(Approvals).has_focus)
        await pilot.press("escape")
        await seen(app, pilot, "interrupted")
        await gone(app, pilot, "Allow")
        assert talk.answers == []
        await until(pilot, lambda: prompt(app).has_focus)


async def test_ctrl_c_clears_and_twice_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    # The hint goes after as much of the machine's own time.
    monkeypatch.setattr(app_module, "AGAIN_S", 50.0)
    clock = Clock()
    talk = Scripted()
    async with opened(talk, clock=clock) as (app, pilot):
        await pilot.press(*"text", "ctrl+c")
        assert prompt(app).whole == ""
        await seen(app, pilot, "ctrl+c again leaves")
        await pilot.press("up")
        assert prompt(app).whole == "text"
        prompt(app).fill("")
        clock.now += 60
        await pilot.press("ctrl+c", *"more", "ctrl+c")
        assert app.return_value is None, "what was typed in between was never cleared"
        await pilot.press("up")
        assert prompt(app).whole == "more"
        prompt(app).fill("")
        clock.now += 1
        await pilot.press("ctrl+c")
        await until(pilot, lambda: app.return_value == 0)
    assert talk.closed


async def test_ctrl_d_leaves_from_an_empty_prompt_only() -> None:
    talk = Scripted([asyncio.Event()])
    async with opened(talk, first="go") as (app, pilot):
        await pilot.press("a", "left", "ctrl+d")
        assert prompt(app).whole == ""
        assert app.return_value is None
        await pilot.press("ctrl+d")
        await until(pilot, lambda: app.return_value == 0)
    assert talk.closed
    assert talk.interrupts


@pytest.mark.parametrize("size", [WIDE, TINY])
async def test_every_pane_is_a_key_away(size: tuple[int, int]) -> None:
    async with opened(Scripted([forecast("a1b2c3d4"), TextDelta("words")]), size, first="go") as (app, pilot):
        await idle(app, pilot)
        wide = size == WIDE
        for key, pane in (("f3", "candidates"), ("f4", "source"), ("f5", "plots"), ("ctrl+2", "candidates")):
            await pilot.press(key)
            assert app.panes.current == pane
            assert app.panes.display
            assert app.query_one(Chat).display is wide
            await seen(app, pilot, "Ask, /command", "ready")
        await pilot.press("f2")
        assert app.panes.display is wide
        assert app.query_one(Chat).display
        assert prompt(app).has_focus
        panes: list[str | None] = []
        for _ in range(4):
            await pilot.press("ctrl+t")
            panes.append(app.panes.current if app.view != "chat" else "chat")
        assert panes == ["candidates", "source", "plots", "chat"]


async def test_escape_comes_back_to_the_prompt_when_nothing_runs() -> None:
    async with opened(Scripted()) as (app, pilot):
        await pilot.press("f3", "escape")
        assert app.query_one(Chat).display
        assert prompt(app).has_focus


async def test_panes_are_a_click_away() -> None:
    async with opened(Scripted()) as (app, pilot):
        await pilot.click("#name-plots")
        assert app.panes.current == "plots"
        assert not app.query_one(Chat).display


async def test_a_chosen_candidate_is_shown_and_copied() -> None:
    async with opened(Scripted([forecast("aaaaaaaa"), forecast("bbbbbbbb")]), first="go") as (app, pilot):
        await idle(app, pilot)
        await pilot.press("f3", "down", "enter")
        await until(pilot, lambda: "kernel bbbbbbbb" in app.query_one(SourcePane).text)
        await pilot.press("ctrl+y")
        assert "kernel bbbbbbbb" in app.clipboard
        await pilot.press("f3", "ctrl+y")
        assert "kernel bbbbbbbb" in app.clipboard


@pytest.mark.parametrize(("target", "device"), [("", "NVIDIA H200"), ("h200", "auto")])
async def test_a_card_that_need_not_be_here_is_not_called_the_device(target: str, device: str) -> None:
    call = ToolCalled("c", "forecast_kernel", {"task": "softmax", "target": target})
    async with opened(Scripted([call, forecast("aaaaaaaa")]), first="go") as (app, pilot):
        await idle(app, pilot)
        await seen(app, pilot, f"{device} · scripted")


async def test_the_latest_answer_is_copied_as_it_was_written() -> None:
    async with opened(Scripted([TextDelta("Use `float4`,\n\n**really**.")]), first="go") as (app, pilot):
        await idle(app, pilot)
        await pilot.press("ctrl+y")
        assert app.clipboard == "Use `float4`,\n\n**really**."
        await say(pilot, "/copy")
        await seen(app, pilot, "copied the latest answer, 3 lines")


async def test_tool_calls_unfold_by_key_and_by_click() -> None:
    script: list[Step] = [
        ToolCalled("c", "read_file", {"path": "k.cu", "source": "first\nsecond"}),
        ToolReturned("c", "read_file", "2 lines", {"text": "__global__"}, 0.1),
    ]
    async with opened(Scripted(script), first="go") as (app, pilot):
        await seen(app, pilot, "2 lines")
        assert "__global__" not in shown(app)
        await pilot.press("ctrl+o")
        await seen(app, pilot, "__global__", "second")
        await pilot.press("ctrl+o")
        await until(pilot, lambda: "__global__" not in shown(app))
        app.query_one(".call", Block).focus()
        await pilot.press("enter")
        await seen(app, pilot, "__global__")
        await pilot.click(".call")
        await until(pilot, lambda: "__global__" not in shown(app))


async def test_a_long_message_is_folded_in_the_chat() -> None:
    async with opened(Scripted(), first="\n".join(f"row {n}" for n in range(30))) as (app, pilot):
        await seen(app, pilot, "row 5", "… 24 more lines")
        app.query_one(".user", Block).focus()
        await pilot.press("enter")
        await until(pilot, lambda: "more lines" not in str(app.query_one(".user", Block).render()))


async def test_only_the_end_of_a_long_conversation_is_mounted_and_more_on_demand() -> None:
    past = long_past(100, 200)
    talk = Scripted()
    for event in past:
        talk.candidates.apply(event)
    async with opened(talk, WIDE, earlier=past) as (app, pilot):
        view = app.query_one(Chat)
        await seen(app, pilot, "Answer 99", "resumed")
        mounted = len(view.mounted_items)
        assert mounted <= chat.WINDOW
        assert view.virtual_size.height > WIDE[1]
        await until(pilot, lambda: len(app.query_one(CandidatesPane).rows) == 200)
        await pilot.press("home")
        await seen(app, pilot, "earlier · PageUp loads them")
        top = view.mounted_items[0]
        await pilot.press("pageup")
        await until(pilot, lambda: len(view.mounted_items) == mounted + chat.WINDOW)
        assert view.mounted_items[chat.WINDOW] is top
        await until(pilot, lambda: view.scroll_offset.y > 0)
        await pilot.press("end")
        await seen(app, pilot, "Answer 99")


async def test_of_long_answers_only_as_many_are_mounted_as_fill_the_screen() -> None:
    lines = "\n\n".join(f"line {m}" for m in range(WIDE[1]))
    past = [e for n in range(50) for e in (UserSaid(f"question {n}"), TextDelta(lines), Answered("", 1, 1, 0.0, 1.0))]
    async with opened(Scripted(), WIDE, earlier=past) as (app, pilot):
        await seen(app, pilot, f"line {WIDE[1] - 1}", "resumed")
        view = app.query_one(Chat)
        assert len(view.mounted_items) < chat.WINDOW / 4
        assert view.virtual_size.height > WIDE[1]


async def test_what_scrolled_far_out_of_sight_is_let_go() -> None:
    script = [e for n in range(4 * chat.WINDOW) for e in (Noted(f"note {n}"), 0.0)]
    async with opened(Scripted(script), first="go") as (app, pilot):
        await idle(app, pilot)
        await seen(app, pilot, f"note {4 * chat.WINDOW - 1}")
        await until(pilot, lambda: len(app.query_one(Chat).mounted_items) <= 3 * chat.WINDOW)


async def test_scrolling_up_stays_there_until_end_is_pressed() -> None:
    hold = asyncio.Event()
    lines = "\n\n".join(f"line {n}" for n in range(60))
    async with opened(Scripted([TextDelta(lines), hold, TextDelta("\n\nnews")]), first="go") as (app, pilot):
        await seen(app, pilot, "line 59")
        await pilot.press("pageup")
        await until(pilot, lambda: "line 59" not in shown(app))
        view = app.query_one(Chat)
        y = view.scroll_offset.y
        hold.set()
        await seen(app, pilot, "↓ new below (End)")
        await idle(app, pilot)
        assert view.scroll_offset.y == y
        await pilot.press("end")
        await seen(app, pilot, "news")
        await until(pilot, lambda: "new below" not in shown(app))


async def test_no_text_is_lost_when_the_terminal_changes_its_size() -> None:
    talk = Scripted([TextDelta("All of these words are still there. " * 8)])
    async with opened(talk, WIDE, first="go") as (app, pilot):
        await idle(app, pilot)
        for size in (TINY, (200, 60), (40, 10), SMALL):
            await pilot.resize_terminal(*size)
            await until(pilot, lambda: app.query_one(Chat).display and shown(app).splitlines()[-1].strip())
        await until(pilot, lambda: " ".join(shown(app).split()).count("All of these words") == 8)


async def test_without_a_model_it_says_what_works() -> None:
    async with opened(Scripted(settings=Settings(model=None)), WIDE) as (app, pilot):
        await seen(
            app, pilot, "No language model is set", "/demo", "/forecast", "--base-url", "ANTHROPIC_API_KEY", "no model"
        )


@pytest.mark.parametrize("name", ["light", "ansi", "nord"])
async def test_themes_change_by_name(name: str) -> None:
    async with opened(Scripted([TextDelta("`code`")]), first="go") as (app, pilot):
        await say(pilot, f"/theme {name}")
        assert app.theme == {"light": "forewarp-light", "ansi": "ansi-dark"}.get(name, name)
        await seen(app, pilot, "code")
        assert app.conversation.said == ["go"]  # type: ignore[attr-defined]


async def test_an_unknown_theme_is_told_with_the_known_ones() -> None:
    async with opened(Scripted(), theme="light") as (app, pilot):
        await say(pilot, "/theme drak")
        await seen(app, pilot, "there is no theme drak", "ansi-dark")
        assert app.theme == "forewarp-light"


async def test_no_colour_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with opened(Scripted(), WIDE, first="go") as (app, pilot):
        await seen(app, pilot, "You said: go")
        await until(pilot, lambda: not app.turns.running)
        colours = {
            s.style.color.triplet
            for strip in app.screen._compositor.render_strips()
            for s in strip
            if s.style and s.style.color and s.style.color.triplet
        }
        assert all(c.red == c.green == c.blue for c in colours)


async def test_the_palette_closes_by_escape_without_ending_the_turn() -> None:
    talk = Scripted([asyncio.Event()])
    async with opened(talk, first="go") as (app, pilot):
        await pilot.press("ctrl+p")
        await until(pilot, lambda: len(app.screen_stack) == 2)
        await pilot.press("escape")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        assert talk.interrupts == 0


async def test_clear_shows_only_what_comes() -> None:
    async with opened(Scripted(), first="old") as (app, pilot):
        await seen(app, pilot, "You said: old")
        await say(pilot, "/clear")
        await until(pilot, lambda: "old" not in shown(app))
        await say(pilot, "new")
        await seen(app, pilot, "You said: new")
        await gone(app, pilot, "old")


async def test_quit_leaves() -> None:
    talk = Scripted()
    async with opened(talk) as (app, pilot):
        await say(pilot, "/quit")
        await until(pilot, lambda: app.return_value == 0)
    assert talk.closed


@pytest.mark.parametrize(("took", "rings"), [(3.0, 0), (12.0, 1)])
async def test_a_long_turn_announces_its_end(took: float, rings: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, hold, rung = Clock(), asyncio.Event(), list[int]()
    monkeypatch.setattr(ForewarpApp, "bell", lambda _: rung.append(1))
    async with opened(Scripted([hold]), first="go", clock=clock) as (app, pilot):
        await until(pilot, lambda: app.conversation.busy)
        clock.now += took
        hold.set()
        await idle(app, pilot)
        assert len(rung) == rings
        if rings:
            await seen(app, pilot, "done after 12 s")


async def test_a_late_question_rings(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, hold, rung = Clock(), asyncio.Event(), list[int]()
    monkeypatch.setattr(ForewarpApp, "bell", lambda _: rung.append(1))
    async with opened(Scripted([hold, *asking("c1")]), first="go", clock=clock) as (app, pilot):
        await until(pilot, lambda: app.conversation.busy)
        clock.now += 60
        hold.set()
        await seen(app, pilot, "measure_kernel waits for your")
        assert rung


async def test_a_recording_is_played_by_itself_and_named_as_one() -> None:
    talk = Replay([*long_past(2, 4)], speed=float("inf"))
    async with opened(talk, (120, 60)) as (app, pilot):
        await seen(app, pilot, "Answer 0", "Answer 1", "REPLAY")
        await idle(app, pilot)
        await until(pilot, lambda: len(app.query_one(CandidatesPane).rows) == 4)
        await seen(app, pilot, "Question 0", "Answer 0", "Question 1", "Answer 1")
        text = shown(app)
        assert text.index("Question 0") < text.index("Answer 0") < text.index("Question 1") < text.index("Answer 1")
        assert "No language model" not in text


async def test_what_is_typed_into_a_recording_plays_nothing_twice() -> None:
    async with opened(Replay([*long_past(3, 4)], speed=0.01)) as (app, pilot):
        await until(pilot, lambda: app.conversation.busy)
        waiting = list(app.turns.queued)
        await say(pilot, "faster")
        await seen(app, pilot, "goes on by itself")
        assert app.turns.queued == waiting
        assert len(waiting) == 2


async def test_another_conversation_taken_up_shows_its_candidates() -> None:
    from forewarp.agent.candidates import Candidates

    class Resuming(Scripted):
        async def say(self, text: str) -> AsyncGenerator[Any]:
            yield UserSaid(text)
            self.candidates = Candidates()
            for event in [UserSaid("before"), forecast("cccccccc"), forecast("dddddddd"), Answered("")]:
                self.candidates.apply(event)
                yield event

    async with opened(Resuming(), WIDE) as (app, pilot):
        await say(pilot, "/resume x")
        await until(pilot, lambda: len(app.query_one(CandidatesPane).rows) == 2)
        await seen(app, pilot, "before")


async def test_what_is_to_be_drawn_later_is_drawn_though_the_thread_was_given_no_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late = Clock()

    def get_time() -> float:
        timer = sys._getframe(1).f_locals.get("self")
        if isinstance(timer, Timer) and timer._repeat == 0:  # a timer that fires once, of which each look is late
            late.now += 10
            return late.now
        return time.monotonic()

    monkeypatch.setattr("textual.timer._time.get_time", get_time)
    async with opened(Scripted([forecast("cccccccc"), TextDelta("an answer"), Answered("")]), WIDE) as (app, pilot):
        await say(pilot, "go")
        await seen(app, pilot, "an answer", "1 candidate")


async def test_up_recalls_what_was_said_before() -> None:
    async with opened(Scripted(), history=History()) as (app, pilot):
        await say(pilot, "first")
        await say(pilot, "second")
        await pilot.press(*"dr", "up")
        assert prompt(app).whole == "second"
        await pilot.press("up")
        assert prompt(app).whole == "first"
        await pilot.press("down", "down")
        assert prompt(app).whole == "dr"


async def test_the_waiting_lines_are_few() -> None:
    async with opened(Scripted([asyncio.Event()]), first="go") as (app, pilot):
        for n in range(6):
            await say(pilot, f"m{n}")
        few = ["queued: m0", "queued: m1", "queued: m2", "… 3 more"]
        await until(pilot, lambda: str(app.query_one("#waiting", Static).render()).splitlines() == few)
