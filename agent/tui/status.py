"""Status line at the bottom: activity, device, model, and what is left of the budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from forewarp.agent.events import Spent
from forewarp.agent.settings import Settings
from forewarp.agent.tui import wording
from forewarp.agent.tui.items import Items, LineItem, MarkdownItem, ThoughtItem
from forewarp.agent.tui.printable import TextPart, assemble
from forewarp.tools.wording import dollars

SEPARATOR = " · "
_NEEDED = 1
"""Rank up to which parts take precedence over the text of the activity: the budget."""


class StatusLine(Widget):
    """One line; where it is narrow the least needed parts go first. `since` is when the turn began, by its clock."""

    activity: reactive[str] = reactive("")
    queued: reactive[int] = reactive(0)
    behind: reactive[bool] = reactive(False)
    label: reactive[str] = reactive("")
    message: reactive[str] = reactive("")
    parts: reactive[Sequence[tuple[int, str]]] = reactive[Sequence[tuple[int, str]]](())

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, id: str | None = None) -> None:
        super().__init__(id=id)
        self.since = 0.0
        self.device = ""
        self._clock = clock

    def on_mount(self) -> None:
        self.set_interval(1.0, lambda: self.refresh() if self.activity else None)

    def render(self) -> Content:
        width = self.content_size.width
        needed = SEPARATOR.join(text for rank, text in self.parts if rank <= _NEEDED and text)
        left = self._left().truncate(max(12, width - len(needed) - 2), ellipsis=True)
        right = fitting(self.parts, width - left.cell_length - 2)
        gap = max(1, width - left.cell_length - Content(right).cell_length)
        return assemble(left, " " * gap, (right, "dim")).truncate(width, ellipsis=True)

    def _left(self) -> Content:
        pieces: list[TextPart] = [(f" {self.label} ", "reverse"), " "] if self.label else []
        if self.message:
            pieces.append((self.message, "$text-warning"))
        elif self.activity:
            took = wording.seconds(self._clock() - self.since)
            pieces += [("● ", "$text-accent"), self.activity, (f" {took}", "dim")]
        else:
            pieces.append(("ready", "dim"))
        if self.queued:
            pieces.append((f"{SEPARATOR}{self.queued} queued", "$text-accent"))
        if self.behind:
            pieces.append((f"{SEPARATOR}↓ new below (End)", "$text-accent"))
        return assemble(*pieces)


def activity(items: Items, *, asking: bool, summarising: bool) -> str:
    """Return a turn's current activity in words."""
    if asking:
        return "waiting for you"
    call = next(reversed(items.running.values()), None)
    if call is not None:
        return f"{call.tool}: {wording.cut(call.progress, 40)}" if call.progress else call.tool
    match items.all[-1] if items.all else None:
        case MarkdownItem(done=False):
            return "writing"
        case ThoughtItem(done=False):
            return "thinking"
        case LineItem(classes="retry"):
            return "asking again"
        case _ if summarising:
            return "summarising the conversation"
        case _:
            return "working"


def fitting(given: Sequence[tuple[int, str]], width: int) -> str:
    """Return the texts that fit, in order; those with the highest number are left out first."""
    kept = [(n, text) for n, text in given if text]
    while kept:
        joined = SEPARATOR.join(text for _, text in kept)
        if Content(joined).cell_length <= width:
            return joined
        kept.remove(max(kept, key=lambda part: part[0]))
    return ""


def parts(settings: Settings, spent: Spent, room: int, device: str = "") -> list[tuple[int, str]]:
    """Return the texts for settings and spending, each with a rank; high ranks are dropped first.

    `room` are the tokens from which on the conversation is summarised.
    """
    cap = settings.budget
    measured = f"{spent.measurements}/{cap.measurements}" if cap.measurements is not None else f"{spent.measurements}"
    seconds = wording.seconds(spent.device_s) if spent.device_s or cap.device_s is not None else ""
    seconds += f" of {wording.seconds(cap.device_s)}" if cap.device_s is not None else ""
    used = spent.input_tokens + spent.output_tokens
    tokens = wording.amount(used) + (f"/{wording.amount(cap.tokens)}" if cap.tokens is not None else "")
    price = "price unknown" if spent.dollars is None else dollars(spent.dollars)
    price += f"/{cap.dollars:.2f}" if cap.dollars is not None and spent.dollars is not None else ""
    return [
        (3, device or settings.place.device),
        (2, model_name(settings)),
        (0, f"{measured} measured"),
        (4, f"{seconds} device" if seconds else ""),
        (5, f"{tokens} tokens" if used else ""),
        (6, f"context {spent.context_tokens / room:.0%}" if spent.context_tokens else ""),
        (1, "" if spent.dollars == 0 and cap.dollars is None else price),
    ]


def model_name(settings: Settings) -> str:
    """Return the model's name without its provider."""
    model = settings.model
    if model is None:
        return "no model"
    name = model if isinstance(model, str) else model.model_name
    return name.partition(":")[2] or name
