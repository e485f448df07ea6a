"""Three plots of a conversation: the best so far, measured against forecast, and reliability of the forecasts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from forewarp.agent.candidates import CandidateRow, Candidates
from forewarp.agent.tui.printable import styled
from forewarp.tools.parts import Place

ENOUGH = 10
"""Measured forecasts from which on a conversation has a reliability diagram of its own."""

LEAST_WIDTH, LEAST_HEIGHT = 30, 8
TITLES = ("best so far", "measured", "reliability")

Span = tuple[float, float, float]
"""A speed-up with its interval."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """Data of a board that a plot needs, so that it can be drawn outside the event loop."""

    task: str
    device: str
    forecaster: str
    best: Sequence[Span | None]
    each: Sequence[float | None]
    pairs: Sequence[tuple[Span, Span]]
    said: Sequence[tuple[float, bool]]

    @staticmethod
    def of(board: Candidates) -> Drawn:
        """Return the data of the task that was measured last, and the forecasts of all."""
        rows = board.measured()
        task = rows[-1].forecast.task if rows else ""
        here = [r for r in rows if r.forecast.task == task]
        latest = rows[-1].forecast if rows else next(reversed([r.forecast for r in board]), None)
        pairs = [(f, m) for r in here if (f := _forecast(r)) and (m := _measured(r))]
        said = [(r.expected.p_faster, _faster(r)) for r in rows if r.expected.p_faster is not None]
        each = [m[0] if (m := _measured(r)) else None for r in here]
        device, forecaster = (latest.device, latest.forecaster) if latest else ("", "")
        return Drawn(task, device, forecaster, _best(here), each, pairs, said)


class Plots(Widget):
    """A pane that plots the board given to `load`, as large as it is. `place` says whose archive to look into."""

    DEFAULT_CSS = """
    Plots { layout: vertical; height: 1fr; }
    Plots > #plots-titles { height: 1; padding: 0 1 0 2; text-wrap: nowrap; text-overflow: ellipsis; }
    Plots > VerticalScroll {
        height: 1fr;
        padding: 0 1 0 2;
        background: $surface;
        scrollbar-size-vertical: 1;
        scrollbar-background: $surface;
        scrollbar-color: $secondary 50%;
    }
    Plots #plots-drawing { width: auto; height: auto; text-wrap: nowrap; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "show(0)", TITLES[0], show=False),
        Binding("2", "show(1)", TITLES[1], show=False),
        Binding("3", "show(2)", TITLES[2], show=False),
        Binding("left", "turn(-1)", "previous plot", show=False),
        Binding("right", "turn(1)", "next plot"),
    ]

    def __init__(self, place: Place | None = None, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.place = place or Place()
        self.text = ""
        self._board = Candidates()
        self._shown = 0
        self._stale = True

    def compose(self) -> ComposeResult:
        """Yield the titles and the drawing."""
        yield Static("", id="plots-titles", markup=False)
        with VerticalScroll():
            yield Static("", id="plots-drawing", markup=False)

    def load(self, board: Candidates) -> None:
        """Draw this board from now on."""
        self._board = board
        self.refresh_row()

    def refresh_row(self, row: CandidateRow | None = None) -> None:
        """Draw anew after the board changed; nothing is done while the pane is out of sight."""
        if row is not None and row.measured is None:
            return
        self._stale = True
        self.call_later(self._settle)

    def action_show(self, place: int) -> None:
        """Show the drawing at a place, from 0."""
        self._shown = place
        self.refresh_row()

    def action_turn(self, by: int) -> None:
        """Show the next drawing."""
        self.action_show((self._shown + by) % len(TITLES))

    def focus(self, scroll_visible: bool = True) -> Plots:
        """Focus the part that scrolls."""
        self.query_one(VerticalScroll).focus(scroll_visible)
        return self

    def on_show(self) -> None:
        """Draw changes that came while the pane was out of sight."""
        self.call_later(self._settle)

    def on_resize(self) -> None:
        """Draw in the new size."""
        self.refresh_row()

    def on_click(self, event: events.Click) -> None:
        """Show the drawing whose title was clicked."""
        titles = self.query_one("#plots-titles", Static)
        at = event.get_content_offset(titles)
        if event.widget is titles and at is not None:
            ends = [sum(len(_title(i)) + 3 for i in range(n + 1)) for n in range(len(TITLES))]
            place = next((n for n, end in enumerate(ends) if at.x < end), None)
            if place is not None:
                self.action_show(place)

    def _settle(self) -> None:
        if not self._stale or not self.is_mounted or not self.size.width:
            return
        self._stale = False
        parts = [styled(_title(n), "bold" if n == self._shown else "dim") for n in range(len(TITLES))]
        self.query_one("#plots-titles", Static).update(Content("   ").join(parts))
        self.run_worker(self._draw(), exclusive=True, group="plots")

    async def _draw(self) -> None:
        room = self.query_one(VerticalScroll).scrollable_content_region
        width, height = max(LEAST_WIDTH, room.width), max(LEAST_HEIGHT, room.height - 2)
        draw = _DRAWINGS[self._shown]
        self.text = await asyncio.to_thread(draw, Drawn.of(self._board), self.place, width, height)
        drawing = Content(self.text).highlight_regex("[●]", style="$text-accent")
        self.query_one("#plots-drawing", Static).update(drawing)


def _title(place: int) -> str:
    return f"{place + 1} {TITLES[place]}"


def _progress(data: Drawn, _: Place, width: int, height: int) -> str:
    from forewarp.report import plots
    from forewarp.tools.parts import Interval

    best = [Interval(ratio=b[0], low=b[1], high=b[2]) if b else None for b in data.best]
    drawn = plots.progress(best, width, height, each=data.each)
    failed = sum(e is None for e in data.each)
    head = f"{data.task}, {len(best)} measured" + f", {failed} failed (x)" * bool(failed)
    return f"{head}\n{drawn}" if drawn else "Two measurements that worked make a curve."


def _against(data: Drawn, _: Place, width: int, height: int) -> str:
    from forewarp.report import plots
    from forewarp.tools.parts import Interval

    pairs = [
        (Interval(ratio=f[0], low=f[1], high=f[2]), Interval(ratio=m[0], low=m[1], high=m[2])) for f, m in data.pairs
    ]
    inside = sum(f.low <= m.ratio <= f.high for f, m in pairs)
    drawn = plots.against(pairs, width, height, intervals=len(pairs) <= height)
    head = f"{data.task}, {inside} of {len(pairs)} measured within their 80 % intervals"
    return f"{head}\n{drawn}" if drawn else "Two measured forecasts are needed."


def _reliability(data: Drawn, place: Place, width: int, height: int) -> str:
    from forewarp.report import plots
    from forewarp.tools import calibration

    if len(data.said) >= ENOUGH:
        points = calibration.reliability([p for p, _ in data.said], [came for _, came in data.said])
        head = f"this conversation, {len(data.said)} measured forecasts"
    else:
        found = calibration.faster_on_record(place, data.device, data.forecaster) if data.device else None
        missing = f"{ENOUGH - len(data.said)} more measured forecasts make a diagram of this conversation"
        if found is None:
            return f"{missing[0].upper()}{missing[1:]};\nthe archive has none for {data.device or 'this device'} yet."
        points = found.points
        head = f"archive, {data.device}, {found.forecaster}, {found.outcomes} forecasts; {missing}"
    drawn = plots.reliability([("●", points)], width, height, intervals=True)
    return f"{head}\nsaid to be correct and faster (across), came true (up, 95 %)\n{drawn}"


_DRAWINGS: Sequence[Callable[[Drawn, Place, int, int], str]] = (_progress, _against, _reliability)


def _best(rows: Sequence[CandidateRow]) -> list[Span | None]:
    curve: list[Span | None] = []
    best: Span | None = None
    for row in rows:
        found = _measured(row) if row.is_valid else None
        if found is not None and (best is None or found[0] > best[0]):
            best = found
        curve.append(best)
    return curve


def _forecast(row: CandidateRow) -> Span | None:
    f = row.expected
    return (f.median, f.low, f.high) if f.median and f.low and f.high else None


def _measured(row: CandidateRow) -> Span | None:
    m = row.measured
    return (m.speedup, m.low, m.high) if m and m.trusted and m.speedup and m.low and m.high else None


def _faster(row: CandidateRow) -> bool:
    m = row.measured
    return m is not None and m.trusted and (m.speedup or 0.0) > 1
