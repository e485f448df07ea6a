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

from forewarp.agent.candidates import Candidates, ListedCandidate
from forewarp.agent.tui.printable import styled
from forewarp.tools.parts import Interval, Place

ENOUGH = 10
"""Measured forecasts from which on a conversation has a reliability diagram of its own."""

LEAST_WIDTH, LEAST_HEIGHT = 30, 8
TITLES = ("1 best so far", "2 measured", "3 reliability")


@dataclass(frozen=True, slots=True)
class PlotData:
    """Data of the candidates that the plots need, so that they can be drawn outside the event loop.

    `best`, `each` and `pairs` are of the task measured last: the best after each measurement, each speed-up, and
    forecasts with what was measured. `outcomes` are the forecast probabilities of all to be faster, and whether they
    were.
    """

    task: str
    device: str
    forecaster: str
    best: Sequence[Interval | None]
    each: Sequence[float | None]
    pairs: Sequence[tuple[Interval, Interval]]
    outcomes: Sequence[tuple[float, bool]]

    @staticmethod
    def of(candidates: Candidates) -> PlotData:
        """Return the data of the task that was measured last, and the forecasts of all."""
        rows = candidates.measured()
        latest = rows[-1].forecast if rows else next(reversed([r.forecast for r in candidates]), None)
        here = [r for r in rows if latest is not None and r.forecast.task == latest.task]
        best: list[Interval | None] = []
        for row in here:
            before, measured = best[-1] if best else None, _measured(row) if row.is_valid else None
            best.append(measured if measured and (before is None or measured.ratio > before.ratio) else before)
        return PlotData(
            task=latest.task if latest and rows else "",
            device=latest.device if latest else "",
            forecaster=latest.forecaster if latest else "",
            best=best,
            each=[m.ratio if (m := _measured(r)) else None for r in here],
            pairs=[(f, m) for r in here if (f := _forecast(r)) and (m := _measured(r))],
            outcomes=[
                (p, r.measured is not None and r.measured.trusted and (r.speedup or 0.0) > 1)
                for r in rows
                if (p := r.expected.p_faster) is not None
            ],
        )


class PlotsPane(Widget):
    """A pane that plots the candidates given to `load`, as large as it is. `place` says whose archive to look into."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "show(0)", "best so far", show=False),
        Binding("2", "show(1)", "measured", show=False),
        Binding("3", "show(2)", "reliability", show=False),
        Binding("left", "turn(-1)", "previous plot", show=False),
        Binding("right", "turn(1)", "next plot"),
    ]

    def __init__(self, place: Place | None = None, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.text = ""
        self._place = place or Place()
        self._candidates = Candidates()
        self._shown = 0
        self._stale = True

    def compose(self) -> ComposeResult:
        self._titles = Static("", id="plots-titles", markup=False)
        self._drawing = Static("", id="plots-drawing", markup=False)
        self._scroll = VerticalScroll(self._drawing)
        yield from (self._titles, self._scroll)

    def load(self, candidates: Candidates) -> None:
        self._candidates = candidates
        self.refresh_plot()

    def refresh_plot(self) -> None:
        """Draw anew after the candidates changed; nothing is done while the pane is out of sight."""
        self._stale = True
        self.call_later(self.on_show)

    def action_show(self, place: int) -> None:
        self._shown = place
        self.refresh_plot()

    def action_turn(self, by: int) -> None:
        self.action_show((self._shown + by) % len(TITLES))

    def focus(self, scroll_visible: bool = True) -> PlotsPane:
        self._scroll.focus(scroll_visible)
        return self

    def on_show(self) -> None:
        """Draw changes that came while the pane was out of sight."""
        if self._stale and self.is_mounted and self.size.width:
            self._stale = False
            parts = [styled(title, "bold" if n == self._shown else "dim") for n, title in enumerate(TITLES)]
            self._titles.update(Content("   ").join(parts))
            self.run_worker(self._draw, exclusive=True, group="plots")

    def on_resize(self) -> None:
        self.refresh_plot()

    def on_click(self, event: events.Click) -> None:
        at = event.get_content_offset(self._titles)
        if event.widget is self._titles and at is not None:
            ends = [sum(len(title) + 3 for title in TITLES[: n + 1]) for n in range(len(TITLES))]
            place = next((n for n, end in enumerate(ends) if at.x < end), None)
            if place is not None:
                self.action_show(place)

    async def _draw(self) -> None:
        room = self._scroll.scrollable_content_region
        width, height = max(LEAST_WIDTH, room.width), max(LEAST_HEIGHT, room.height - 2)
        data = PlotData.of(self._candidates)
        self.text = await asyncio.to_thread(_PLOTS[self._shown], data, self._place, width, height)
        self._drawing.update(Content(self.text).highlight_regex("[●]", style="$text-accent"))


def _progress(data: PlotData, _: Place, width: int, height: int) -> str:
    from forewarp.report import plots

    drawn = plots.progress(data.best, width, height, each=data.each)
    failed = sum(e is None for e in data.each)
    head = f"{data.task}, {len(data.best)} measured" + f", {failed} failed (x)" * bool(failed)
    return f"{head}\n{drawn}" if drawn else "Two measurements that worked make a curve."


def _against(data: PlotData, _: Place, width: int, height: int) -> str:
    from forewarp.report import plots

    inside = sum(f.low <= m.ratio <= f.high for f, m in data.pairs)
    drawn = plots.against(data.pairs, width, height, intervals=len(data.pairs) <= height)
    head = f"{data.task}, {inside} of {len(data.pairs)} measured within their 80 % intervals"
    return f"{head}\n{drawn}" if drawn else "Two measured forecasts are needed."


def _reliability(data: PlotData, place: Place, width: int, height: int) -> str:
    from forewarp.report import plots
    from forewarp.tools import calibration

    count = len(data.outcomes)
    if count >= ENOUGH:
        points = calibration.reliability([p for p, _ in data.outcomes], [came for _, came in data.outcomes])
        head = f"this conversation, {count} measured forecasts"
    else:
        found = calibration.faster_on_record(place, data.device, data.forecaster) if data.device else None
        missing = f"{ENOUGH - count} more measured forecasts make a diagram of this conversation"
        if found is None:
            return f"{missing};\nthe archive has none for {data.device or 'this device'} yet."
        points = found.points
        head = f"archive, {data.device}, {found.forecaster}, {found.outcomes} forecasts;\n{missing}"
    drawn = plots.reliability(points, width, height - head.count("\n"))
    return f"{head}\nsaid to be correct and faster (across), came true (up, 95 %)\n{drawn}"


_PLOTS: Sequence[Callable[[PlotData, Place, int, int], str]] = (_progress, _against, _reliability)


def _forecast(row: ListedCandidate) -> Interval | None:
    f = row.expected
    return Interval(ratio=f.median, low=f.low, high=f.high, level=0.8) if f.median and f.low and f.high else None


def _measured(row: ListedCandidate) -> Interval | None:
    m = row.measured
    return (
        Interval(ratio=m.speedup, low=m.low, high=m.high)
        if m and m.trusted and m.speedup and m.low and m.high
        else None
    )
