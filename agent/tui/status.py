"""Status line at the bottom: activity, device, model, and what is left of the budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from textual.content import Content
from textual.widgets import Static

from forewarp.agent.events import Spent
from forewarp.agent.settings import Settings
from forewarp.agent.tui import wording
from forewarp.agent.tui.items import AnswerItem, Fold
from forewarp.agent.tui.printable import assemble

SEPARATOR = " · "
_WAITING_SHOWN = 3
_NEEDED = 1
"""Rank up to which parts take precedence over the text of the activity: the budget."""


@dataclass(slots=True)
class StatusValues:
    """Values of the status line beside settings and spending. `since` is when the turn began, by the line's clock."""

    doing: str = ""
    since: float = 0.0
    queued: int = 0
    behind: bool = False
    label: str = ""
    message: str = ""
    device: str = ""


class StatusLine(Static):
    """One line; where it is narrow the least needed parts go first."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self.state = StatusValues()
        self._clock = clock
        self._settings: Settings | None = None
        self._spent = Spent()

    def on_mount(self) -> None:
        """Keep the time of the turn up to date."""
        self.set_interval(1.0, self._tick)

    def show(self, settings: Settings, spent: Spent) -> None:
        """Take over settings and spending."""
        self._settings, self._spent = settings, spent
        self.redraw()

    def redraw(self) -> None:
        """Show the state as it is now."""
        self.update(self._line(self.content_size.width or self.app.size.width - 2))

    def on_resize(self) -> None:
        """Fit the parts to the new width."""
        self.redraw()

    def _tick(self) -> None:
        if self.state.doing:
            self.redraw()

    def _line(self, width: int) -> Content:
        told = parts(self._settings, self._spent, self.state.device) if self._settings is not None else []
        needed = SEPARATOR.join(text for rank, text in told if rank <= _NEEDED and text)
        left = self._left().truncate(max(12, width - len(needed) - 2), ellipsis=True)
        right = fitting(told, width - left.cell_length - 2)
        gap = max(1, width - left.cell_length - Content(right).cell_length)
        return assemble(left, " " * gap, (right, "dim")).truncate(width, ellipsis=True)

    def _left(self) -> Content:
        s = self.state
        pieces: list[str | tuple[str, str] | Content] = []
        if s.label:
            pieces.append((f" {s.label} ", "reverse"))
            pieces.append(" ")
        if s.message:
            pieces.append((s.message, "$text-warning"))
        elif s.doing:
            pieces += [("● ", "$text-accent"), s.doing, (f" {wording.seconds(self._clock() - s.since)}", "dim")]
        else:
            pieces.append(("ready", "dim"))
        if s.queued:
            pieces.append((f"{SEPARATOR}{s.queued} queued", "$text-accent"))
        if s.behind:
            pieces.append((f"{SEPARATOR}↓ new below (End)", "$text-accent"))
        return assemble(*pieces)


def what_goes_on(fold: Fold, *, asking: bool) -> str:
    """Return a turn's current activity in words."""
    if asking:
        return "waiting for you"
    running = list(fold.running.values())
    if running:
        progress = running[-1].progress
        return f"{running[-1].tool}: {wording.one_line(progress, 40)}" if progress else running[-1].tool
    return "writing" if fold.items and isinstance(fold.items[-1], AnswerItem) else "working"


def lines_waiting(steering: Sequence[str], queued: Sequence[str]) -> str:
    """Return a line for each of the first messages that wait."""
    lines = [f"steering: {wording.one_line(t, 200)}" for t in steering]
    lines += [f"queued: {wording.one_line(t, 200)}" for t in queued]
    more = len(lines) - _WAITING_SHOWN
    return "\n".join([*lines[:_WAITING_SHOWN], *([f"… {more} more"] if more > 0 else [])])


def fitting(given: Sequence[tuple[int, str]], width: int) -> str:
    """Return the texts that fit, in order; those with the highest number are left out first."""
    kept = [(n, text) for n, text in given if text]
    while kept:
        joined = SEPARATOR.join(text for _, text in kept)
        if Content(joined).cell_length <= width:
            return joined
        kept.remove(max(kept, key=lambda part: part[0]))
    return ""


def parts(settings: Settings, spent: Spent, device: str = "") -> list[tuple[int, str]]:
    """Return the texts for settings and spending, each with a rank; high ranks are dropped first."""
    cap = settings.budget
    measured = f"{spent.measurements}/{cap.measurements}" if cap.measurements is not None else f"{spent.measurements}"
    price = "" if spent.dollars == 0 and cap.dollars is None else _price(spent.dollars, cap.dollars)
    seconds = wording.seconds(spent.device_s) if spent.device_s or cap.device_s is not None else ""
    seconds += f" of {wording.seconds(cap.device_s)}" if cap.device_s is not None else ""
    used = spent.input_tokens + spent.output_tokens
    tokens = f"{wording.amount(used)} tokens" if used else ""
    if used and cap.tokens is not None:
        tokens = f"{wording.amount(used)}/{wording.amount(cap.tokens)} tokens"
    context = f"context {spent.context_tokens / settings.compact_at:.0%}" if spent.context_tokens else ""
    return [
        (3, device or settings.place.device),
        (2, model_name(settings)),
        (0, f"{measured} measured"),
        (4, f"{seconds} device" if seconds else ""),
        (5, tokens),
        (6, context),
        (1, price),
    ]


def model_name(settings: Settings) -> str:
    """Return the model's name without its provider."""
    model = settings.model
    if model is None:
        return "no model"
    name = model if isinstance(model, str) else model.model_name
    return name.partition(":")[2] or name


def _price(spent: float | None, cap: float | None) -> str:
    if spent is None:
        return "price unknown"
    return wording.dollars(spent) if cap is None else f"{wording.dollars(spent)}/{cap:.2f}"
