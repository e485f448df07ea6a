"""The prompt: several lines, history, completion, and pastes that are kept whole but shown short."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList, Static, TextArea
from textual.widgets.option_list import Option

from forewarp.agent.tui import look
from forewarp.agent.tui.completion import Meant, Named, Word, files, meant_commands, meant_files, ranked, word
from forewarp.agent.tui.history import History
from forewarp.agent.tui.printable import assemble

FOLDED_LINES = 12
FOLDED_CHARACTERS = 3000
"""Lines and characters beyond which a paste is shown as one mark."""


class Typing(TextArea):
    """Text area with the lines being typed; keys that are not for editing are passed to the prompt around it."""

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
        if self._means(event.key):
            event.stop()
            event.prevent_default()
            self.post_message(self.Pressed(event.key))

    def _means(self, key: str) -> bool:
        """Return whether a key is for the prompt around these lines."""
        match key:
            case "enter" | "pageup" | "pagedown" | "ctrl+end" | "ctrl+home":
                return True
            case "tab":
                return self.completing
            case "up":
                return self.completing or self.navigator.is_first_wrapped_line(self.cursor_location)
            case "down":
                return self.completing or self.navigator.is_last_wrapped_line(self.cursor_location)
            case "ctrl+d" | "end" | "home":
                return not self.text
            case "ctrl+u":
                return self.holding
            case _:
                return False


class Completions(OptionList, can_focus=False):
    """Completion popup above the prompt."""


class Prompt(Vertical):
    """Text area for a prompt, with the completion popup above it."""

    class Sent(Message):
        """The user sent a prompt."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Scroll(Message):
        """A key that is for the chat."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    class Recall(Message):
        """Request to put queued messages back into the prompt."""

    class Leave(Message):
        """The user wants to go."""

    def __init__(self, folder: Path, history: History, *, placeholder: str = "", id: str | None = None) -> None:
        super().__init__(id=id)
        self._folder, self._history = folder, history
        self.typing = Typing(placeholder=placeholder)
        self._popup = Completions(compact=True, markup=False)
        self._word: Word | None = None
        self._meant: list[Meant] = []
        self._files: list[str] | None = None
        self._scanning = self._chosen = False

    def compose(self) -> ComposeResult:
        """Yield the completions and the lines."""
        yield self._popup
        with Horizontal(id="prompt-line"):
            yield Static("❯", id="prompt-mark")
            yield self.typing

    def on_mount(self) -> None:
        """Load the history of prompts."""
        self._popup.display = False
        self._load()

    @work(thread=True)
    def _load(self) -> None:
        self._history.load()

    @property
    def text(self) -> str:
        """Typed text, with pastes in full."""
        return self.typing.whole

    @property
    def completing(self) -> bool:
        """True while completions are shown."""
        return self.typing.completing

    @property
    def meant(self) -> Sequence[Meant]:
        """The completions that are shown."""
        return self._meant if self.completing else ()

    def fill(self, text: str) -> None:
        """Replace the typed text."""
        self.typing.fill(text)
        self.close()

    def close(self) -> None:
        """Hide the completions."""
        self._show([])

    @on(Typing.Pressed)
    def _pressed(self, message: Typing.Pressed) -> None:
        message.stop()
        match message.key:
            case "enter":
                self._enter()
            case "tab":
                self._accept()
            case "up" | "down" if self.completing:
                self._chosen = True
                self._popup.action_cursor_up() if message.key == "up" else self._popup.action_cursor_down()
            case "up":
                self._look(self._history.back(self.text))
            case "down":
                self._look(self._history.forth())
            case "ctrl+d":
                self.post_message(self.Leave())
            case "ctrl+u":
                self.post_message(self.Recall())
            case key:
                self.post_message(self.Scroll(key))

    def _look(self, text: str | None) -> None:
        if text is not None:
            self.fill(text)

    def _enter(self) -> None:
        """Accept a completion that was chosen, or that finishes a command's name; else send the prompt."""
        place = self._popup.highlighted
        if self.completing and self._word is not None and place is not None:
            typed = self.typing.before[self._word.start :]
            named = typed in [m.text.strip() for m in self._meant]
            if self._chosen or (self._word.kind == "command" and not named):
                kind, meant = self._word.kind, self._meant[place]
                self._accept()
                # A command without arguments is sent by the same key.
                if kind != "command" or self._takes(meant):
                    return
        text = self.text
        if text.strip():
            self._history.add(text)
            self.fill("")
            self.post_message(self.Sent(text))

    def _takes(self, meant: Meant) -> bool:
        command = self._commands().get(meant.text.strip().removeprefix("/"))
        return command is None or bool(command.arguments)

    def _accept(self) -> None:
        place = self._popup.highlighted
        if self._word is None or place is None:
            return
        row, column = self.typing.cursor_location
        letters = len(self.typing.before) - self._word.start
        self.typing.replace(self._meant[place].text, (row, column - letters), (row, column))
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
        self.typing.focus()

    def _complete(self) -> None:
        """Show completions for the word at the cursor."""
        before = self.typing.before
        known = self._commands() if before.startswith("/") else {}
        self._word = found = word(before, known)
        self._chosen = False
        if found is None:
            self._files = None
            self._show([])
        elif found.kind == "command":
            self._show(meant_commands(found.query, known))
        elif found.kind == "theme":
            self._show([Meant(n) for n in ranked(found.query, [*look.SHORT, *self.app.available_themes])])
        elif self._files is None:
            if not self._scanning:  # a second list would come when the user has chosen from the first one
                self._scanning = True
                self._scan()
        else:
            self._show(meant_files(found, self._files))

    @work(thread=True, exclusive=True, group="files")
    def _scan(self) -> None:
        found = files(self._folder)
        self.app.call_from_thread(self._scanned, found)

    def _scanned(self, found: list[str]) -> None:
        self._files, self._scanning = found, False
        if self._word is not None:
            self._complete()

    def _commands(self) -> Mapping[str, Named]:
        from forewarp.agent.commands import COMMANDS

        return COMMANDS

    def _show(self, meant: list[Meant]) -> None:
        typed = self.typing.before[self._word.start :].strip() if self._word else ""
        # A word typed in full needs no completion, unless the completion has a description.
        if len(meant) == 1 and meant[0].text.strip() == typed and not meant[0].about:
            meant = []
        self._meant = meant
        self.typing.completing = bool(meant)
        self._popup.display = bool(meant)
        self._popup.set_options(Option(_line(m)) for m in meant)
        if meant:
            self._popup.highlighted = 0


def _line(meant: Meant) -> Content:
    return assemble(meant.text.strip(), (f"  {meant.about}" if meant.about else "", "dim"))
