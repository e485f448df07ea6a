"""The prompt: several lines, history, completion, and pastes that are kept whole but shown short."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
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
        """Make an empty history; `locate` returns its file, and is called by `load` only. Without it none is kept."""
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
        """Remember a prompt; the same one twice in a row counts once."""
        if not self._prompts or self._prompts[-1] != text:
            self._prompts.append(text)
            self._write([text], "a")
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
        return self._prompts[self._at] if self._at < len(self._prompts) else self._draft

    def _write(self, prompts: list[str], mode: str) -> None:
        if self._path is None or not prompts:
            return
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open(mode, encoding="utf-8") as file:
                file.writelines(json.dumps(text, ensure_ascii=False) + "\n" for text in prompts)


class PromptArea(TextArea):
    """Text area of the prompt; keys that are not for editing are passed to the prompt around it."""

    class Pressed(Message):
        """A key that is not for editing."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+j,shift+enter,alt+enter", "newline", "New line", show=False),
    ]

    def __init__(self, *, placeholder: str) -> None:
        super().__init__(
            soft_wrap=True, show_line_numbers=False, highlight_cursor_line=False, compact=True, placeholder=placeholder
        )
        self.completing = False
        self.holding = False
        """True while queued messages wait that ctrl+u brings back."""
        self._pasted: dict[str, str] = {}

    @property
    def whole(self) -> str:
        """The text with all pastes in full."""
        text = self.text
        for mark, pasted in self._pasted.items():
            text = text.replace(mark, pasted)
        return text

    @property
    def before(self) -> str:
        """The text up to the cursor."""
        return self.get_text_range((0, 0), self.cursor_location)

    def fill(self, text: str) -> None:
        """Replace the text; a long one is shown short."""
        self._pasted.clear()
        self.load_text(self._folded(text))
        self.move_cursor(self.document.end)

    def action_newline(self) -> None:
        """Begin a new line."""
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
        passed_on = {
            "enter": True,
            "pageup": True,
            "pagedown": True,
            "ctrl+end": True,
            "ctrl+home": True,
            "tab": self.completing,
            "up": self.completing or self.navigator.is_first_wrapped_line(self.cursor_location),
            "down": self.completing or self.navigator.is_last_wrapped_line(self.cursor_location),
            "ctrl+d": not self.text,
            "end": not self.text,
            "home": not self.text,
            "ctrl+u": self.holding,
        }
        if passed_on.get(event.key):
            event.stop()
            event.prevent_default()
            self.post_message(self.Pressed(event.key))


class Prompt(Vertical):
    """Text area for a prompt, with the completion popup above it."""

    class Sent(Message):
        """The user sent a prompt."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Key(Message):
        """A key that is not for the prompt: one that scrolls the chat, ctrl+u with queued messages, or ctrl+d."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    def __init__(self, folder: Path, history: History, *, placeholder: str = "", id: str | None = None) -> None:
        super().__init__(id=id)
        self._folder, self._history = folder, history
        self.area = PromptArea(placeholder=placeholder)
        self._popup = OptionList(compact=True, markup=False, id="completions")
        self._popup.can_focus = False
        self._word: Word | None = None
        self.completions: list[Completion] = []
        """The completions that are shown."""
        self._files: list[str] | None = None
        self._scanning = self._chosen = False

    def compose(self) -> ComposeResult:
        """Yield the completions and the lines."""
        yield self._popup
        with Horizontal(id="prompt-line"):
            yield Static("❯", id="prompt-mark")
            yield self.area

    def on_mount(self) -> None:
        """Load the history of prompts."""
        self._popup.display = False
        self.run_worker(self._history.load, thread=True)

    @property
    def text(self) -> str:
        """Typed text, with pastes in full."""
        return self.area.whole

    def fill(self, text: str) -> None:
        """Replace the typed text."""
        self.area.fill(text)
        self.close()

    def close(self) -> None:
        """Hide the completions."""
        self._show([])

    @on(PromptArea.Pressed)
    def _pressed(self, message: PromptArea.Pressed) -> None:
        message.stop()
        match message.key:
            case "enter":
                self._enter()
            case "tab":
                self._accept()
            case "up" | "down" if self.completions:
                self._chosen = True
                self._popup.action_cursor_up() if message.key == "up" else self._popup.action_cursor_down()
            case "up" | "down":
                text = self._history.back(self.text) if message.key == "up" else self._history.forth()
                if text is not None:
                    self.fill(text)
            case key:
                self.post_message(self.Key(key))

    def _enter(self) -> None:
        """Accept a completion that was chosen, or that finishes a command's name; else send the prompt."""
        place = self._popup.highlighted
        if self.completions and self._word is not None and place is not None:
            typed = self.area.before[self._word.start :]
            named = typed in [c.text.strip() for c in self.completions]
            if self._chosen or (self._word.kind == "command" and not named):
                kind, completion = self._word.kind, self.completions[place]
                self._accept()
                # A command without arguments is sent by the same key.
                if kind != "command" or self._takes_arguments(completion):
                    return
        text = self.text
        if text.strip():
            self._history.add(text)
            self.fill("")
            self.post_message(self.Sent(text))

    def _takes_arguments(self, completion: Completion) -> bool:
        command = _commands().get(completion.text.strip().removeprefix("/"))
        return command is None or bool(command.arguments)

    def _accept(self) -> None:
        place = self._popup.highlighted
        if self._word is None or place is None:
            return
        row, column = self.area.cursor_location
        letters = len(self.area.before) - self._word.start
        self.area.replace(self.completions[place].text, (row, column - letters), (row, column))
        self.close()

    @on(TextArea.Changed)
    def _changed(self, message: TextArea.Changed) -> None:
        message.stop()
        self._complete()

    @on(OptionList.OptionSelected)
    def _clicked(self, message: OptionList.OptionSelected) -> None:
        message.stop()
        self._popup.highlighted = message.option_index
        self._accept()
        self.area.focus()

    def _complete(self) -> None:
        """Show completions for the word at the cursor."""
        before = self.area.before
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
        typed = self.area.before[self._word.start :].strip() if self._word else ""
        # A word typed in full needs no completion, unless the completion has a description.
        if len(offered) == 1 and offered[0].text.strip() == typed and not offered[0].about:
            offered = []
        self.completions = offered
        self.area.completing = self._popup.display = bool(offered)
        self._popup.set_options(
            Option(assemble(c.text.strip(), (f"  {c.about}" if c.about else "", "dim"))) for c in offered
        )
        self._popup.highlighted = 0 if offered else None


def _commands() -> Mapping[str, Command]:
    from forewarp.agent.commands import COMMANDS  # loaded with the first slash, so that the first frame is soon

    return COMMANDS
