"""Hostile text in every place of the terminal agent, as what would be written to the terminal."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from rich.segment import Segment
from rich.style import Style
from support.scripted_conversation import Scripted, Step, forecast, measured
from support.terminal import until
from textual.app import App, ComposeResult
from textual.color import Color
from textual.widgets import Label

from forewarp.agent.events import (
    Answered,
    ApprovalAsked,
    Compacted,
    Failed,
    Noted,
    Progressed,
    TextDelta,
    ToolCalled,
    ToolReturned,
)
from forewarp.agent.tui import chat
from forewarp.agent.tui.app import ForewarpApp
from forewarp.agent.tui.approval import Approvals
from forewarp.agent.tui.markdown import MOST_CELLS, PART_LINES, Prose, highlighted
from forewarp.agent.tui.printable import Printable, assemble, styled
from forewarp.agent.tui.prompt import Prompt
from forewarp.core.untrusted_text import printable

ACTS = "\x1b]0;owned\x07\x1b[2J\x9b2J\u202e\b\r"
HOSTILE = f"{ACTS}[red]x[/] [link=http://evil]y[/link]"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "FRAME_S", 0.001)
    monkeypatch.setattr(Approvals, "GRACE_S", 0.001)


def written(app: ForewarpApp) -> str:
    """The screen as it is written to a terminal, without the line ends."""
    strips = app.screen._compositor.render_strips()
    return "".join(strip.render(app.console) for strip in strips)


def acts(text: str) -> list[str]:
    parts = ("\x1b]", "\x1b[2J", "\x9b", "\u202e", "\b", "\r", "\x07", "\n", "\t")
    return [part for part in parts if part in text]


def widths(app: ForewarpApp) -> set[int]:
    return {sum(s.cell_length for s in strip) for strip in app.screen._compositor.render_strips()}


def steps() -> Iterable[Step]:
    yield TextDelta(
        f"# {HOSTILE}\n\n{HOSTILE} [here](http://evil) <b>\n\n```\n{HOSTILE}\n```\n\n| {HOSTILE} |\n|---|\n| a |\n"
    )
    yield ToolCalled("c1", HOSTILE, {"path": HOSTILE, HOSTILE: [HOSTILE], "text": f"{HOSTILE}\n{HOSTILE}"})
    yield Progressed("c1", HOSTILE)
    yield forecast("a", task=HOSTILE)
    yield measured("a", task=HOSTILE)
    yield ToolReturned("c1", HOSTILE, HOSTILE, {"error": HOSTILE, "hint": HOSTILE, "log": HOSTILE}, 1.0)
    yield Noted(HOSTILE)
    yield Compacted(HOSTILE)
    yield Failed("usage", HOSTILE, HOSTILE)


@pytest.mark.parametrize("view", ["chat", "candidates", "source", "plots"])
@pytest.mark.parametrize("size", [(120, 60), (70, 40)])
async def test_no_pane_writes_what_a_terminal_acts_upon(view: Any, size: tuple[int, int]) -> None:
    app = ForewarpApp(Scripted(steps()), first=f"go {HOSTILE}")
    app.animation_level = "none"
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(pilot, lambda: not app.conversation.busy and "[red]x" in written(app))
        app.action_unfold()
        app.action_view(view)
        app.notify("plain", title="")
        app._announce(HOSTILE)
        await pilot.pause()
        await until(pilot, lambda: "[red]x" in written(app))
        assert not acts(written(app)), ascii(written(app))
        assert widths(app) == {size[0]}


async def test_what_is_hidden_in_a_question_is_marked_in_it() -> None:
    question = ApprovalAsked("c1", "write_file", "write a\x1b[2Jb\nIt is safe.", HOSTILE, f"+rm\b\bls {HOSTILE}")
    app = ForewarpApp(Scripted([question, Answered("")]), first="go")
    app.animation_level = "none"
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: "write a\ufffd[2Jb It is safe." in written(app))
        assert "+rm\ufffd\ufffdls" in written(app)
        assert not acts(written(app))


async def test_only_yes_and_no_answer_a_question_about_a_file() -> None:
    talk = Scripted([ApprovalAsked("c1", "write_file", "write .x", "hidden", "+x"), Answered("")])
    app = ForewarpApp(talk, first="go")
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.query_one(Approvals).has_focus)
        assert "always" not in written(app)
        await pilot.press("a")
        assert talk.answers == []
        await pilot.press("y")
        await until(pilot, lambda: talk.answers == [("c1", "yes", "")])


async def test_files_that_may_be_meant_are_harmless(tmp_path: Path) -> None:
    (tmp_path / "evil\x1b]0;owned\x07[red].cu").write_text("")
    (tmp_path / b"bad\xff.cu".decode(errors="surrogateescape")).write_text("")
    talk = Scripted()
    talk.settings = type(talk.settings)(folder=tmp_path)
    app = ForewarpApp(talk)
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("@")
        await until(pilot, lambda: len(app.query_one(Prompt).completions) == 2)
        await until(pilot, lambda: "evil]0;owned[red].cu" in written(app))
        assert "bad\ufffd.cu" in written(app)
        assert not acts(written(app))


async def test_what_is_pasted_into_the_prompt_and_copied_is_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    app = ForewarpApp(Scripted([TextDelta(HOSTILE), Answered(HOSTILE)]), first="go")
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: "[red]x" in written(app))
        monkeypatch.setattr("textual.app.App.copy_to_clipboard", lambda _, text: copied.append(text))
        app.action_copy()
        app.query_one(Prompt).fill(HOSTILE)
        await pilot.pause()
        assert not acts(written(app))
    [text] = copied
    assert text.isprintable()


@pytest.mark.parametrize("hostile", [HOSTILE, *HOSTILE[:20]])
def test_styles_stand_where_the_text_is(hostile: str) -> None:
    content = assemble(hostile, ("styled", "bold"), ("", "dim"), styled(hostile, "red"))
    assert content.plain == f"{printable(hostile)}styled{printable(hostile)}"
    [bold] = [s for s in content.spans if s.style == "bold"]
    assert content.plain[bold.start : bold.end] == "styled"
    highlighted(f"int x; // {hostile}\n", "cpp")


def shown(app: App[Any]) -> list[str]:
    lines = [strip.text.strip() for strip in app.screen._compositor.render_strips()]
    return [line for line in lines if line]


class Page(App[None]):
    """A piece of Markdown and nothing else."""

    CSS_PATH = Path(inspect.getfile(ForewarpApp)).with_name(str(ForewarpApp.CSS_PATH))

    def __init__(self, text: str) -> None:
        super().__init__()
        self.prose = Prose(text)

    def compose(self) -> ComposeResult:
        yield self.prose


async def test_links_of_markdown_show_where_they_lead() -> None:
    app = Page(
        "see [the `docs`](http://evil/?q), <http://plain> and ![a picture](http://img)\n\n| [a](http://b) |\n|---|\n"
    )
    async with app.run_test(size=(100, 10)) as pilot:
        whole = "see the docs (http://evil/?q), http://plain and a picture (http://img)"
        await until(pilot, lambda: whole in shown(app))
        assert "a (http://b)" in shown(app)
        segments = [s for strip in app.screen._compositor.render_strips() for s in strip]
        assert not [s for s in segments if s.style and (s.style.link or "@click" in s.style.meta)]


async def test_html_and_broken_markup_are_shown_as_text() -> None:
    app = Page("a vector<float> of [/b] <script>x</script>\n\n| [/x] <b> |\n|---|\n| [red |\n")
    async with app.run_test(size=(80, 10)) as pilot:
        await until(pilot, lambda: "a vector<float> of [/b] <script>x</script>" in shown(app))
        assert "[/x] <b>" in shown(app)
        assert not [w for w in app.prose.walk_children() if w.tooltip]


async def test_a_table_of_too_many_cells_is_shown_as_text() -> None:
    rows = "".join("|" + line * MOST_CELLS + "\n" for line in ("a|", "-|", "b|"))
    app = Page(f"| x |\n|---|\n| y |\n\n{rows}\nEnd.\n")
    async with app.run_test(size=(80, 100)) as pilot:
        await until(pilot, lambda: "End." in shown(app))
        assert "|a|a|a" in "".join(shown(app))
        assert len(app.prose.query("MarkdownTable")) == 1


@pytest.mark.parametrize("begun", [3, 58], ids=["in the first block", "within a program"])
async def test_a_text_that_grows_looks_like_the_whole(begun: int) -> None:
    text = "# Head\n\nSome *words* and `code`.\n\n- a\n- b\n\n```cpp\nint x;\n\nint y;\n```\n\n"
    text += "| a | b |\n|---|---|\n| 1 | 2 |\n\nEnd.\n"
    whole, grown = Page(text), Page(text[:begun])
    async with whole.run_test(size=(60, 30)) as pilot:
        await until(pilot, lambda: "End." in shown(whole))
        expected = shown(whole)
    async with grown.run_test(size=(60, 30)) as pilot:
        for at in range(begun, len(text), 5):
            await grown.prose.follow(text[: at + 5])
        await until(pilot, lambda: shown(grown) == expected)
    assert [line.split() for line in expected] == [
        *(["Head"], ["Some", "words", "and", "code."], ["•", "a"], ["•", "b"], ["int", "x;"], ["int", "y;"]),
        *(["a", "b"], ["──────"], ["1", "2"], ["End."]),
    ]


async def test_a_program_that_grows_keeps_the_parts_that_were_shown() -> None:
    lines = "".join(f"int value_{n};\n" for n in range(2 * PART_LINES + 10))
    app = Page("```cpp\n" + lines)
    async with app.run_test(size=(60, 30)) as pilot:
        await until(pilot, lambda: len(app.prose.query(Label)) == 3)
        full = [label.visual for label in app.prose.query(Label)][:2]
        await app.prose.follow(f"```cpp\n{lines}int last;\n" + "int more;\n" * PART_LINES + "```\n\nEnd.")
        await until(pilot, lambda: "End." in shown(app) or app.prose.query("MarkdownParagraph"))
        labels = list(app.prose.query(Label))
        assert all(kept is label.visual for kept, label in zip(full, labels, strict=False))
        text = "\n".join(str(label.content) for label in labels)
        assert text == f"{lines}int last;\n" + "\n".join(["int more;"] * PART_LINES)


@pytest.mark.parametrize("begun", ["```cpp\nint x = 1;\n```", ""])
async def test_a_program_is_shown_once(begun: str) -> None:
    app = Page(begun)
    async with app.run_test() as pilot:
        if not begun:
            await app.prose.follow("```cpp\nint x = 1;\n```")
        await pilot.pause()
        assert shown(app) == ["int x = 1;"]


def test_the_filter_keeps_widths_and_drops_links() -> None:
    segments = [
        Segment(text, Style(link="http://evil", bold=True)) for text in (HOSTILE, "a\u00adb", "日\u200b本", "a\udcff")
    ]
    safe = Printable().apply(segments, Color(0, 0, 0))
    assert [s.cell_length for s in safe] == [s.cell_length for s in segments]
    assert not any(s.style is None or s.style.link for s in safe)
    assert all(s.style is not None and s.style.bold for s in safe)
