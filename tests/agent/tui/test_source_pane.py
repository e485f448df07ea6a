"""The pane with a candidate's text: what is said of it, differences, and what is copied."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.boards import SOURCE, forecast, measured, row, sha
from support.terminal import until
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from forewarp.agent.candidates import Candidates
from forewarp.agent.tui import markdown
from forewarp.agent.tui.app import ForewarpApp
from forewarp.agent.tui.source import EMPTY, SourcePane

STYLE = Path(inspect.getfile(ForewarpApp)).with_name(str(ForewarpApp.CSS_PATH))
Snapshot = Callable[[Pilot[Any], str], Awaitable[None]]


class Pane(App[None]):
    CSS_PATH = STYLE

    def compose(self) -> ComposeResult:
        yield SourcePane()

    @property
    def pane(self) -> SourcePane:
        return self.query_one(SourcePane)

    def show(self, made: Candidates, number: int) -> None:
        shown = row(made, number)
        self.pane.show(shown, made.parent(shown), made.best(shown.forecast.task))
        self.pane.focus()


def two() -> Candidates:
    made = Candidates()
    first = forecast(1, median=1.2)
    second = replace(forecast(2, median=1.4), parent=sha(1), language="cuda", source=SOURCE.replace("expf", "__expf"))
    for number, said in enumerate((first, second), 1):
        made.apply(said)
        made.apply(measured(said, number, ratio=1.0 + number))
    return made


async def test_it_looks_as_recorded(snapshot: Snapshot) -> None:
    app = Pane()
    async with app.run_test(size=(100, 18)) as pilot:
        app.show(two(), 2)
        await pilot.pause()
        await snapshot(pilot, "source_text")
        await pilot.press("d")
        await pilot.pause()
        await snapshot(pilot, "source_diff")


async def test_keys_go_between_text_and_differences() -> None:
    app, made = Pane(), two()
    async with app.run_test(size=(100, 24)) as pilot:
        app.show(made, 2)
        assert app.pane.text == row(made, 2).forecast.source
        await pilot.press("d")
        assert app.pane.text.splitlines()[:2] == ["--- #1", "+++ #2"]
        assert "+  y[blockIdx.x * n + threadIdx.x] = __expf(x[threadIdx.x] - top);" in app.pane.text.splitlines()
        await pilot.press("b")
        assert app.pane.text == "This is the best so far."
        app.show(made, 1)
        assert app.pane.text.splitlines()[:2] == ["--- #2", "+++ #1"]
        await pilot.press("d")
        assert "nobody knows" in app.pane.text
        await pilot.press("d")
        assert app.pane.text == row(made, 1).forecast.source


async def test_a_latest_forecast_that_is_not_the_one_shown_is_told_apart() -> None:
    app, made = Pane(), Candidates()
    made.apply(replace(forecast(1, median=2.0), origin="user", trials=6))
    made.apply(replace(forecast(1, median=1.0), origin="r-7f3a2c", trials=0))
    async with app.run_test(size=(130, 24)) as pilot:
        app.show(made, 1)
        await pilot.pause()
        lines = [strip.text.strip() for strip in app.screen._compositor.render_strips()]
        assert lines[1].startswith("forecast 2.00× [")
        assert lines[1].endswith("· user, trials known: 6")
        assert lines[2].startswith("latest   1.00× [")
        assert lines[2].endswith("· r-7f3a2c, trials known: 0")
        app.show(two(), 1)
        await pilot.pause()
        lines = [strip.text.strip() for strip in app.screen._compositor.render_strips()]
        assert "latest" not in " ".join(lines)


async def test_nothing_chosen_is_said() -> None:
    app = Pane()
    async with app.run_test(size=(80, 10)) as pilot:
        app.pane.focus()
        await pilot.press("d")
        assert app.pane.text == ""
        await until(pilot, lambda: EMPTY in app.screen._compositor.render_strips()[0].text)


def test_other_tunables_are_a_difference() -> None:
    made = Candidates()
    made.apply(forecast(1))
    made.apply(replace(forecast(2), source=row(made, 1).forecast.source))
    lines = markdown.candidate_difference(row(made, 2), row(made, 1)).splitlines()
    assert [line for line in lines if line[0] in "+-"] == [
        "--- #1",
        "+++ #2",
        "-BLOCK = 128",
        "+BLOCK = 256",
    ]


@pytest.mark.parametrize("language", ["cpp", "cuda", "triton", "python", "unheard-of"])
def test_colours_change_no_character(language: str) -> None:
    assert markdown.highlighted(SOURCE, language).plain.rstrip("\n") == SOURCE.rstrip("\n")


def test_code_is_coloured_unless_it_is_huge() -> None:
    assert markdown.highlighted(SOURCE, "cuda").spans
    assert not markdown.highlighted(SOURCE * 500, "cuda").spans
