"""One widget for each item of the chat."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from forewarp.agent.tui import wording
from forewarp.agent.tui.items import AnswerItem, Closing, Item, MeasuredItem, Note, Said, ToolCallItem
from forewarp.agent.tui.printable import assemble, styled
from forewarp.agent.tui.prose import Pages

SHOWN_LINES = 8
"""Lines of a long message, and rows of measured candidates, that are shown at once."""

_MARKS = {
    "running": ("● ", "$text-accent"),
    "waiting": ("? ", "$text-warning"),
    "done": ("● ", "$text-success"),
    "failed": ("✗ ", "$text-error"),
    "stopped": ("■ ", "dim"),
}


class Block(Static):
    """An item that is drawn as a whole whenever it changed."""

    def __init__(self, classes: str = "") -> None:
        super().__init__(markup=False, classes=f"block {classes}")

    def draw(self) -> Content:
        """Return the content to show."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """Draw for the first time."""
        self.redraw()

    def redraw(self) -> None:
        """Show the item as it is now."""
        self.update(self.draw())


class Unfolding(Block, can_focus=True):
    """A block that Enter or a click unfolds."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,space", "unfold", "Unfold", show=False)]

    def unfold(self) -> None:
        """Change between folded and unfolded."""
        raise NotImplementedError

    def action_unfold(self) -> None:
        """Unfold or fold by key."""
        self.unfold()
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        """Unfold or fold by mouse, unless text is being selected."""
        if not self.screen.get_selected_text():
            self.action_unfold()


class SaidBlock(Unfolding):
    """The user's words; long ones are folded."""

    def __init__(self, item: Said) -> None:
        super().__init__("said")
        self.item = item

    def unfold(self) -> None:
        """Show all lines, or the first ones."""
        self.item.expanded = not self.item.expanded

    def draw(self) -> Content:
        """Return the words, with a mark for those that steer."""
        lines = self.item.text.splitlines() or [""]
        folded = len(lines) > SHOWN_LINES and not self.item.expanded
        shown = "\n".join(lines[: SHOWN_LINES - 2] if folded else lines)
        more = f"\n… {len(lines) - SHOWN_LINES + 2} more lines" if folded else ""
        steering = "  steering" if self.item.steering else ""
        return assemble(shown, (more, "dim"), (steering, "$text-warning"))


class CallBlock(Unfolding):
    """A tool call: what was called, what it is doing or came to, and all of it when unfolded."""

    def __init__(self, item: ToolCallItem, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__("call")
        self.item, self._clock = item, clock

    def unfold(self) -> None:
        """Show the call in full, or its summary."""
        self.item.expanded = not self.item.expanded

    def draw(self) -> Content:
        """Return the header, one line of news, and the body."""
        i = self.item
        running = i.state in ("running", "waiting")
        took = self._clock() - i.began if running else i.seconds
        parts: list[str | tuple[str, str]] = [_MARKS[i.state], (i.tool, "bold")]
        if given := wording.arguments(i.arguments):
            parts.append((f" {given}", "dim"))
        parts.append((f"  {wording.seconds(took)}", "dim"))
        parts += self._news()
        if i.expanded:
            parts.append((f"\n{wording.body(i.arguments, i.result)}", "dim"))
        return assemble(*parts)

    def _news(self) -> list[str | tuple[str, str]]:
        i = self.item
        news: list[str | tuple[str, str]] = []
        if i.approval:
            news.append((f"\n  approval: {i.approval}", "dim"))
        match i.state:
            case "waiting":
                news.append(("\n  waits for your approval", "$text-warning"))
            case "running":
                news.append((f"\n  {i.progress}" if i.progress else "", "dim"))
            case "stopped":
                news.append(("\n  stopped", "dim"))
            case "failed":
                news.append((f"\n  {i.summary or i.result.get('error', '')}", "$text-error"))
                if hint := i.result.get("hint"):
                    news.append((f"\n  → {hint}", "dim"))
            case "done":
                news.append(f"\n  {i.summary}" if i.summary else "")
        return news


class MeasuredBlock(Block):
    """Measured candidates, the latest ones in one line each."""

    def __init__(self, item: MeasuredItem) -> None:
        super().__init__("measured")
        self.item = item

    def on_resize(self) -> None:
        """Use as many words as the new width allows."""
        self.redraw()

    def draw(self) -> Content:
        """Return the latest rows."""
        rows = wording.candidates(self.item.rows[-SHOWN_LINES:], self.content_size.width)
        earlier = len(self.item.rows) - len(rows)
        if earlier:
            rows.insert(0, styled(f"… {earlier} earlier ones under Candidates (F3)", "dim"))
        return Content("\n").join(rows)


class NoteBlock(Block):
    """An error or an interruption."""

    def __init__(self, item: Note) -> None:
        super().__init__(item.tone)
        self.item = item

    def draw(self) -> Content:
        """Return what happened and what to do."""
        i = self.item
        if i.tone == "interrupted":
            during = f" during {i.text}" if i.text else ""
            return styled(f"interrupted{during}; what was done is kept", "$text-warning")
        hint = (f"\n→ {i.hint}", "dim") if i.hint else ""
        return assemble((i.text, "$text-error"), hint)


class ClosingBlock(Block):
    """Time, tokens and price of a turn."""

    def __init__(self, item: Closing) -> None:
        super().__init__("closing")
        self.item = item

    def draw(self) -> Content:
        """Return time, tokens and price in one line."""
        a = self.item.answered
        price = "price unknown" if a.dollars is None else wording.dollars(a.dollars)
        tokens = f"{wording.amount(a.input_tokens)} in, {wording.amount(a.output_tokens)} out"
        return styled(f"{wording.seconds(a.seconds)} · {tokens} · {price}", "dim")


class AnswerBlock(Pages):
    """The model's words."""

    def __init__(self, item: AnswerItem) -> None:
        super().__init__(item.text, classes="block answer")
        self.item = item

    def follow(self) -> None:
        """Update to the text written so far."""
        self.write(self.item.text)


class NotedBlock(Pages):
    """Markdown that forewarp itself says."""

    def __init__(self, item: Note) -> None:
        title = "**Summary of the conversation so far**\n\n" if item.tone == "compacted" else ""
        super().__init__(title + item.text, classes=f"block {item.tone}")
        self.item = item


def block(item: Item, clock: Callable[[], float] = time.monotonic) -> Widget:
    """Return the widget that shows an item."""
    match item:
        case Said():
            return SaidBlock(item)
        case AnswerItem():
            return AnswerBlock(item)
        case ToolCallItem():
            return CallBlock(item, clock)
        case MeasuredItem():
            return MeasuredBlock(item)
        case Note(tone="note" | "compacted"):
            return NotedBlock(item)
        case Note():
            return NoteBlock(item)
        case Closing():
            return ClosingBlock(item)


def refresh(widget: Widget) -> None:
    """Show the widget's item as it is now."""
    if isinstance(widget, AnswerBlock):
        widget.follow()
    elif isinstance(widget, Block | Pages):
        widget.redraw()
