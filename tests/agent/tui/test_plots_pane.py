"""The pane with the drawings: which data, which size, and where the reliability comes from."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from support.boards import board, forecast, measured, row
from support.terminal import until
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from forewarp.agent.candidates import Candidates
from forewarp.agent.tui.app import ForewarpApp
from forewarp.agent.tui.plots import PlotData, PlotsPane

STYLE = Path(inspect.getfile(ForewarpApp)).with_name(str(ForewarpApp.CSS_PATH))
Snapshot = Callable[[Pilot[Any], str], Awaitable[None]]


class Pane(App[None]):
    CSS_PATH = STYLE

    def compose(self) -> ComposeResult:
        yield PlotsPane()

    @property
    def pane(self) -> PlotsPane:
        return self.query_one(PlotsPane)

    def on_mount(self) -> None:
        self.pane.focus()


async def drawn(pilot: Pilot[None], text: str) -> None:
    await until(pilot, lambda: text in pilot.app.query_one(PlotsPane).text)


async def test_it_looks_as_recorded(snapshot: Snapshot) -> None:
    app = Pane()
    async with app.run_test(size=(90, 24)) as pilot:
        app.pane.load(board(40))
        for key, name in (("1", "plot_progress"), ("right", "plot_against"), ("3", "plot_reliability")):
            await pilot.press(key)
            await snapshot(pilot, name)


async def test_a_drawing_is_as_wide_as_the_pane() -> None:
    app = Pane()
    async with app.run_test(size=(60, 20)) as pilot:
        app.pane.load(board(20))
        for width in (60, 120):
            await pilot.resize_terminal(width, 20)
            fits = range(width - 6, width + 1)
            await until(pilot, lambda fits=fits: max(map(len, app.pane.text.splitlines()), default=0) in fits)


async def test_a_drawing_that_another_takes_the_place_of_leaves_nothing_behind() -> None:
    app = Pane()
    async with app.run_test(size=(90, 20)) as pilot:
        for count in (20, 30):
            app.pane.load(board(count))
            app.pane.on_show()
        await drawn(pilot, "measured")
        gc.collect()  # a coroutine that nobody awaited is a warning then


async def test_a_click_on_a_title_shows_its_drawing() -> None:
    app = Pane()
    async with app.run_test(size=(90, 20)) as pilot:
        app.pane.load(board(20))
        await pilot.click("#plots-titles", offset=(22, 0))
        await drawn(pilot, "within their 80 % intervals")


async def test_few_measured_forecasts_say_what_is_missing() -> None:
    app = Pane()
    async with app.run_test(size=(90, 20)) as pilot:
        app.pane.load(board(6))
        await pilot.press("3")
        await drawn(pilot, "7 more measured forecasts make a diagram of this conversation")
        assert "the archive has none for NVIDIA H200 yet" in app.pane.text


def test_the_task_measured_last_is_drawn_and_every_forecast_is_judged() -> None:
    made = board(8, ("softmax", "layernorm"), every=99)
    for number, ratio in ((1, 2.0), (2, 1.5), (4, 1.2), (6, 3.0)):
        made.apply(measured(row(made, number).forecast, number, ratio=ratio))
    data = PlotData.of(made)
    assert data.task == "softmax"
    assert [b and round(b.ratio, 3) for b in data.best] == [1.5, 1.5, 3.0]
    assert len(data.outcomes) == 4


def test_what_failed_keeps_the_best_and_is_no_pair() -> None:
    made = Candidates()
    for number, ratio in ((1, 1.5), (2, 2.0)):
        said = forecast(number)
        made.apply(said)
        made.apply(measured(said, number, ratio=ratio))
    wrong = forecast(3)
    made.apply(wrong)
    came = measured(wrong, 3, ratio=9.0)
    made.apply(replace(came, trusted=False, verdict="suspicious"))
    data = PlotData.of(made)
    assert data.each == [1.5, 2.0, None]
    assert [b and b.ratio for b in data.best] == [1.5, 2.0, 2.0]
    assert len(data.pairs) == 2


def test_a_forecast_that_knows_the_outcome_is_not_judged() -> None:
    made = Candidates()
    said = forecast(1, median=1.5)
    made.apply(said)
    made.apply(measured(said, 1, ratio=2.0))
    made.apply(replace(said, median=2.0, low=1.99, high=2.01, p_faster=1.0))
    data = PlotData.of(made)
    assert data.pairs[0][0].ratio == 1.5
    assert data.outcomes == [(said.p_faster, True)]
