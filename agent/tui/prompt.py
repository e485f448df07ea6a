"""The prompt: several lines, history, completion, and pastes that are kept whole but shown short."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import OptionList, Static, TextArea
from textual.widgets.option_list import Option

from forewarp.agent.tui import themes
from forewarp.agent.tui.completion import Completion, Word, completions, files_below, word_before
from forewarp.agent.tui.printable import assemble

if TYPE_CHECKING:
    from forewarp.agent.commands import Command

FOLDED_LINES, FOLDED_CHARACTERS = 12, 3000
"""Lines and characters beyond which a paste is shown as one mark."""

MOST_PROMPTS = 500
"""Prompts that are remembered."""


class History:
    """Prompts in the order of typing, with a cursor to look back; an unusable file is ignored."""

    def __init__(self, locate: Callable[[], Path] | None = None) -> None:
        self._locate = locate
        self._path: Path | None = None
        self._prompts: list[str] = []
        self._at = 0
        self._draft = ""

    def load(self) -> None:
        """Read the file; prompts typed before that stay last."""
        if self._locate is None:
            return
        read: list[str] = []
        self._path, early = self._locate(), list(self._prompts)
        with contextlib.suppress(OSError, ValueError):
            for line in self._path.read_text(encoding="utf-8", errors="replace").splitlines():
                read.append(str(json.loads(line)))
        self._prompts = [*read, *early][-MOST_PROMPTS:]
        self._at = len(self._prompts)
        if len(read) > 2 * MOST_PROMPTS:
            self._write(self._prompts, "w")
        else:
            self._write(early, "a")

    def add(self, text: str) -> None:
        """Remember a prompt, and before it the draft that was left for an older one; twice in a row counts once."""
        for each in (self._draft, text):
            if each.strip() and each not in self._prompts[-1:]:
                self._prompts.append(each)
                self._write([each], "a")
        self._at, self._draft = len(self._prompts), ""

    def back(self, draft: str) -> str | None:
        """Return the prompt before; `draft` is kept if the look back begins with it."""
        if self._at == 0:
            return None
        if self._at == len(self._prompts):
            self._draft = draft
        self._at -= 1
        return self._prompts[self._at]

    def forth(self) -> str | None:
        """Return the prompt after, at last the draft; None where there is none."""
        if self._at >= len(self._prompts):
            return None
        self._at += 1
        if self._at < len(self._prompts):
            return self._prompts[self._at]
        draft, self._draft = self._draft, ""
        return draft

    def _write(self, prompts: list[str], mode: str) -> None:
        if self._path is None or not prompts:
            return
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open(mode, encoding="utf-8") as file:
                file.writelines(json.dumps(text, ensure_ascii=False) + "\n" for text in prompts)


class Prompt(TextArea):
    """Text area for a prompt; `completions` is the list above it. What the keys mean depends on both."""

    @dataclass
    class Sent(Message):
        """The user sent a prompt."""

        text: str

    @dataclass
    class Key(Message):
        """A key that is not for the prompt: one that scrolls the chat, ctrl+u with queued messages, or ctrl+d."""

        key: str

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+j,shift+enter,alt+enter", "newline", "New line", show=False)]

    def __init__(self, folder: Path, history: History, completions: OptionList, *, placeholder: str = "") -> None:
        super().__init__(
            soft_wrap=True, show_line_numbers=False, highlight_cursor_line=False, compact=True, placeholder=placeholder
        )
        self.holding = False
        """True while queued messages wait that ctrl+u brings back."""
        self.completions: list[Completion] = []
        """The completions that are shown."""
        self._completed = ""
        """The text that they are for, up to the cursor."""
        self._folder, self._history, self._list = folder, history, completions
        self._pasted: dict[str, str] = {}
        self._word: Word | None = None
        self._files: list[str] | None = None
        self._scanning = self._chosen = False

    def on_mount(self) -> None:
        self.run_worker(self._history.load, thread=True)

    @property
    def whole(self) -> str:
        """Typed text, with all pastes in full."""
        text = self.text
        for mark, pasted in self._pasted.items():
            text = text.replace(mark, pasted)
        return text

    def fill(self, text: str) -> None:
        """Replace the text; a long one is shown short."""
        self._pasted.clear()
        self.load_text(self._folded(text))
        self.move_cursor(self.document.end)
        self.close()

    def close(self) -> None:
        self._show([])

    def action_newline(self) -> None:
        self.insert("\n")

    def _folded(self, text: str) -> str:
        lines = text.count("\n") + 1
        if lines <= FOLDED_LINES and len(text) <= FOLDED_CHARACTERS:
            return text
        what = f"{lines} lines" if lines > 1 else f"{len(text)} characters"
        mark = f"[pasted {len(self._pasted) + 1}: {what}]"
        self._pasted[mark] = text
        return mark

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        text = event.text.replace("\r\n", "\n").replace("\r", "\n")
        self.replace(self._folded(text), *self.selection)

    async def _on_key(self, event: events.Key) -> None:
        if self._take(event.key) or await self._edit(event.key):
            event.stop()
            event.prevent_default()

    async def _edit(self, key: str) -> bool:
        """Do at once what a key is bound to here: by way of the app it would be done after keys typed behind it."""
        for binding in self._bindings.key_to_bindings.get(key, ()):
            if await self.app.run_action(binding.action, self):
                return True
        return False

    def _take(self, key: str) -> bool:
        """Do what a key means that is not for editing; return False for one that is."""
        # Keys that come fast overtake the message that the text has changed.
        if key in ("enter", "tab") and self._completed != self._before:
            self._complete()
        completing, here = bool(self.completions), self.cursor_location
        match key:
            case "enter":
                self._enter()
            case "tab" if completing:
                self._accept()
            case "up" | "down" if completing:
                self._chosen = True
                self._list.action_cursor_up() if key == "up" else self._list.action_cursor_down()
            case "up" if self.navigator.is_first_wrapped_line(here):
                self._recall(self._history.back(self.whole))
            case "down" if self.navigator.is_last_wrapped_line(here):
                self._recall(self._history.forth())
            case "pageup" | "pagedown" | "ctrl+end" | "ctrl+home":
                self.post_message(self.Key(key))
            case "ctrl+d" | "end" | "home" if not self.text:
                self.post_message(self.Key(key))
            case "ctrl+u" if self.holding:
                self.post_message(self.Key(key))
            case _:
                return False
        return True

    def _recall(self, text: str | None) -> None:
        if text is not None:
            self.fill(text)

    def _enter(self) -> None:
        """Accept a completion that was chosen, or that finishes a command's name; else send the prompt."""
        place = self._list.highlighted
        if self.completions and self._word is not None and place is not None:
            typed = self._before[self._word.start :]
            named = typed in [c.text.strip() for c in self.completions]
            if self._chosen or (self._word.kind == "command" and not named):
                kind, completion = self._word.kind, self.completions[place]
                self._accept()
                command = _commands().get(completion.text.strip().removeprefix("/"))
                # A command without arguments is sent by the same key.
                if kind != "command" or command is None or command.arguments:
                    return
        text = self.whole
        if text.strip():
            self._history.add(text)
            self.fill("")
            self.post_message(self.Sent(text))

    def _accept(self) -> None:
        place = self._list.highlighted
        if self._word is None or place is None:
            return
        row, column = self.cursor_location
        letters = len(self._before) - self._word.start
        self.replace(self.completions[place].text, (row, column - letters), (row, column))
        self.close()

    def accept(self, place: int) -> None:
        self._list.highlighted = place
        self._accept()
        self.focus()

    @on(TextArea.Changed)
    def _changed(self, message: TextArea.Changed) -> None:
        message.stop()
        self._complete()

    @property
    def _before(self) -> str:
        return self.get_text_range((0, 0), self.cursor_location)

    def _complete(self) -> None:
        """Show completions for the word at the cursor."""
        before = self._completed = self._before
        commands = _commands() if before.startswith("/") else {}
        self._word = word = word_before(before, commands)
        self._chosen = False
        if word is None:
            self._files = None
            self._show([])
        elif word.kind in ("file", "mention") and self._files is None:
            if not self._scanning:  # a second list would come when the user has chosen from the first one
                self._scanning = True
                self._scan()
        else:
            names = (*themes.SHORT, *self.app.available_themes)
            self._show(completions(word, commands, self._files or (), names))

    @work(thread=True, exclusive=True, group="files")
    def _scan(self) -> None:
        found = files_below(self._folder)
        self.app.call_from_thread(self._scanned, found)

    def _scanned(self, found: list[str]) -> None:
        self._files, self._scanning = found, False
        if self._word is not None:
            self._complete()

    def _show(self, offered: list[Completion]) -> None:
        typed = self._before[self._word.start :].strip() if self._word else ""
        # A word typed in full needs no completion, unless the completion has a description.
        if len(offered) == 1 and offered[0].text.strip() == typed and not offered[0].about:
            offered = []
        self.completions = offered
        self._list.display = bool(offered)
        self._list.set_options(
            Option(assemble(c.text.strip(), (f"  {c.about}" if c.about else "", "dim"))) for c in offered
        )
        self._list.highlighted = 0 if offered else None


class PromptBox(Vertical):
    """The prompt with its completions above it."""

    def __init__(self, folder: Path, history: History, *, placeholder: str = "", id: str | None = None) -> None:
        super().__init__(id=id)
        self._list = OptionList(compact=True, markup=False, id="completions")
        self._list.can_focus = self._list.display = False
        self.prompt = Prompt(folder, history, self._list, placeholder=placeholder)

    def compose(self) -> ComposeResult:
        yield self._list
        with Horizontal(id="prompt-line"):
            yield Static("❯", id="prompt-mark")
            yield self.prompt

    @on(OptionList.OptionSelected)
    def _clicked(self, message: OptionList.OptionSelected) -> None:
        message.stop()
        self.prompt.accept(message.option_index)


def _commands() -> Mapping[str, Command]:
    from forewarp.agent.commands import COMMANDS  # loaded with the first slash, so that the first frame is soon

    return COMMANDS
