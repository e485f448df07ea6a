from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.terminal import WAIT_S, until
from textual import events
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from forewarp.agent.tui import prompt as prompt_module
from forewarp.agent.tui.completion import MOST_FILES, Word, completions, files_below, ranked, word_before
from forewarp.agent.tui.prompt import MOST_PROMPTS, History, Prompt, PromptBox


class Only(App[None]):
    """A prompt and nothing else."""

    def __init__(self, folder: Path, history: History) -> None:
        super().__init__()
        self.sent: list[str] = []
        self.told: list[str] = []
        self.box = PromptBox(folder, history)
        self.prompt = self.box.prompt

    def compose(self) -> ComposeResult:
        yield self.box

    def on_mount(self) -> None:
        self.prompt.focus()

    def on_prompt_sent(self, message: Prompt.Sent) -> None:
        self.sent.append(message.text)

    def on_prompt_key(self, message: Prompt.Key) -> None:
        self.told.append(message.key)


@asynccontextmanager
async def typing(folder: Path, history: History | None = None) -> AsyncGenerator[tuple[Only, Pilot[None]]]:
    app = Only(folder, history or History())
    async with app.run_test(size=(80, 24)) as pilot:
        yield app, pilot


def meant(app: Only) -> Sequence[str]:
    return [m.text for m in app.prompt.completions]


async def until_meant(app: Only, pilot: Pilot[None]) -> None:
    await until(pilot, lambda: app.prompt.completions, lambda: "nothing is proposed")


async def test_enter_sends_and_other_keys_begin_a_line(tmp_path: Path) -> None:
    async with typing(tmp_path) as (app, pilot):
        await pilot.press("enter", "a", "ctrl+j", "b", "shift+enter", "c", "enter")
        await until(pilot, lambda: app.sent == ["a\nb\nc"])
        assert app.prompt.whole == ""


async def test_a_long_paste_is_short_to_look_at_and_whole_to_send(tmp_path: Path) -> None:
    pasted = "\r\n".join(f"line {n}" for n in range(500))
    async with typing(tmp_path) as (app, pilot):
        await pilot.press(*"see ")
        app.prompt.post_message(events.Paste(pasted))
        await until(pilot, lambda: app.prompt.text == "see [pasted 1: 500 lines]")
        await pilot.press("!", "enter")
        await until(pilot, lambda: app.sent == ["see " + pasted.replace("\r\n", "\n") + "!"])
        await pilot.press("up")
        assert app.prompt.text == "[pasted 1: 500 lines]"
        assert app.prompt.whole == app.sent[0]


async def test_a_short_paste_is_text(tmp_path: Path) -> None:
    async with typing(tmp_path) as (app, pilot):
        app.prompt.post_message(events.Paste("a\nb"))
        await until(pilot, lambda: app.prompt.text == "a\nb")
        assert app.sent == []


async def test_up_and_down_move_within_lines_before_they_recall(tmp_path: Path) -> None:
    history = History()
    history.add("earlier")
    async with typing(tmp_path, history) as (app, pilot):
        await pilot.press("a", "ctrl+j", "b", "up")
        assert app.prompt.whole == "a\nb"
        await pilot.press("up")
        assert app.prompt.whole == "earlier"
        await pilot.press("down")
        assert app.prompt.whole == "a\nb"


async def test_commands_are_proposed_and_taken_by_tab(tmp_path: Path) -> None:
    async with typing(tmp_path) as (app, pilot):
        await pilot.press("/")
        everything = meant(app)
        assert "/forecast " in everything
        await pilot.press(*"fore")
        assert meant(app) == ["/forecast "]
        await pilot.press("tab")
        assert app.prompt.whole == "/forecast "
        assert not app.prompt.completions


async def test_enter_takes_a_command_and_sends_one_that_needs_nothing_more(tmp_path: Path) -> None:
    async with typing(tmp_path) as (app, pilot):
        await pilot.press(*"/forec", "enter")
        assert app.sent == []
        assert app.prompt.whole == "/forecast "
        await pilot.press("ctrl+u", *"/ru", "enter")
        await until(pilot, lambda: app.sent == ["/runs "])


async def test_a_chosen_completion_is_taken_by_enter(tmp_path: Path) -> None:
    (tmp_path / "a1.cu").write_text("")
    (tmp_path / "a2.cu").write_text("")
    async with typing(tmp_path) as (app, pilot):
        await pilot.press(*"@a")
        await until_meant(app, pilot)
        await pilot.press("down", "enter")
        assert app.prompt.whole == "@a2.cu "
        assert app.sent == []


async def test_files_are_looked_for_once_so_that_no_late_list_undoes_a_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a1.cu").write_text("")
    (tmp_path / "a2.cu").write_text("")
    typed, looks = threading.Event(), list[Path]()

    def slow(folder: Path) -> list[str]:
        looks.append(folder)
        typed.wait(WAIT_S)
        return files_below(folder)

    monkeypatch.setattr(prompt_module, "files_below", slow)
    async with typing(tmp_path) as (app, pilot):
        await pilot.press(*"@a")
        await until(pilot, lambda: looks)
        typed.set()
        await until_meant(app, pilot)
        assert looks == [tmp_path]
        await pilot.press("down", "enter")
        assert app.prompt.whole == "@a2.cu "


async def test_a_mention_that_is_no_file_is_sent_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "triton_jit.py").write_text("")
    async with typing(tmp_path) as (app, pilot):
        await pilot.press(*"use @triton")
        await until_meant(app, pilot)
        await pilot.press("enter")
        await until(pilot, lambda: app.sent == ["use @triton"])


async def test_files_are_proposed_for_a_mention_and_for_commands_that_take_them(tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "soft max.cu").write_text("")
    (tmp_path / "kernels" / "gelu.cu").write_text("")
    async with typing(tmp_path) as (app, pilot):
        await pilot.press(*"look at @soft")
        await until_meant(app, pilot)
        assert meant(app) == ['@"kernels/soft max.cu" ']
        await pilot.press("tab")
        assert app.prompt.whole == 'look at @"kernels/soft max.cu" '
        app.prompt.fill("")
        await pilot.press(*"/measure gelu ge")
        await until_meant(app, pilot)
        assert meant(app) == ["kernels/gelu.cu "]


async def test_keys_that_are_not_for_editing_are_told(tmp_path: Path) -> None:
    async with typing(tmp_path) as (app, pilot):
        await pilot.press("pageup", "pagedown", "end", "ctrl+end", "home", "ctrl+d", "ctrl+u")
        await until(pilot, lambda: app.told == ["pageup", "pagedown", "end", "ctrl+end", "home", "ctrl+d"])
        app.prompt.holding = True
        await pilot.press("a", "end", "ctrl+d", "ctrl+u")
        await until(pilot, lambda: app.told[6:] == ["ctrl+u"])
        assert app.prompt.whole == "a"


async def test_many_lines_leave_the_rest_of_the_screen_alone(tmp_path: Path) -> None:
    async with typing(tmp_path) as (app, pilot):
        app.prompt.insert("\n" * 8)
        await pilot.pause()
        assert app.prompt.text.count("\n") == 8


def test_history_is_kept_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "conversations" / "prompts.jsonl"
    first = History(lambda: path)
    first.add("typed before it was read")
    first.load()
    first.add("two\nlines")
    first.add("two\nlines")
    second = History(lambda: path)
    second.load()
    assert second.back("draft") == "two\nlines"
    assert second.back("x") == "typed before it was read"
    assert second.back("x") is None
    assert [second.forth(), second.forth(), second.forth()] == ["two\nlines", "draft", None]


def test_history_forgets_the_oldest(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    history = History(lambda: path)
    history.load()
    for n in range(2 * MOST_PROMPTS + 1):
        history.add(str(n))
    again = History(lambda: path)
    again.load()
    assert len(path.read_text().splitlines()) == MOST_PROMPTS
    assert again.back("") == str(2 * MOST_PROMPTS)


def test_a_history_that_cannot_be_used_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "prompts.jsonl", tmp_path / "file"):
        history = History(lambda path=path: path)
        history.load()
        history.add("x")
        assert history.back("") == "x"


@pytest.mark.parametrize(
    ("before", "found"),
    [
        ("/fo", Word("command", 0, "fo")),
        ("look /fo", None),
        ("@", Word("mention", 0, "")),
        ("see @src/a", Word("mention", 4, "src/a")),
        ("see\n@a", Word("mention", 4, "a")),
        ("me@example", None),
        ("/theme li", Word("theme", 7, "li")),
        ("plain", None),
        ("/nothing a", None),
    ],
)
def test_the_word_being_typed(before: str, found: Word | None) -> None:
    from forewarp.agent.commands import COMMANDS

    assert word_before(before, COMMANDS) == found


def test_nearer_names_come_first() -> None:
    names = ["deep/softmax/run.py", "softmax.cu", "a/my_softmax.cu", "s/o/f/t.py", "gelu.cu"]
    assert ranked("soft", names) == ["softmax.cu", "a/my_softmax.cu", "deep/softmax/run.py", "s/o/f/t.py"]
    assert [c.text for c in completions(Word("mention", 0, "gelu"), {}, names, ())] == ["@gelu.cu "]


def test_files_leave_out_what_is_hidden_or_generated_and_are_bounded(tmp_path: Path) -> None:
    for name in (".git/config", "node_modules/x.js", "__pycache__/a.pyc", "src/deep/a.cu", "top.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert files_below(tmp_path) == ["loop", "top.py", "src/deep/a.cu"]
    assert files_below(tmp_path, most=1) == ["loop"]
    assert files_below(tmp_path / "missing") == []
    assert MOST_FILES <= 20_000


async def test_keys_that_arrive_together_are_taken_in_order(tmp_path: Path) -> None:
    async with typing(tmp_path) as (app, pilot):
        for key in ("a", "b", "backspace", "c", "left", "d"):
            app.post_message(events.Key(key, key if len(key) == 1 else None))
        await until(pilot, lambda: app.prompt.text == "adc", app.prompt.text)


async def test_enter_behind_fast_keys_takes_no_completion_of_an_older_text(tmp_path: Path) -> None:
    async with typing(tmp_path) as (app, pilot):
        await pilot.press(*"/forecas")
        await until_meant(app, pilot)
        for key in "t a b":
            app.prompt.post_message(events.Key("space" if key == " " else key, key))
        app.prompt.post_message(events.Key("enter", None))
        await until(pilot, lambda: app.sent == ["/forecast a b"], lambda: app.prompt.text)


def test_a_draft_that_was_left_for_an_older_prompt_is_kept() -> None:
    history = History()
    history.add("first")
    assert history.back("a draft") == "first"
    history.add("first, changed")
    assert [history.back(""), history.back(""), history.back("")] == ["first, changed", "a draft", "first"]
