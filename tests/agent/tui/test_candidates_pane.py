"""The table of candidates: order, filters, what stays in narrow panes, and what a row changes."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from support.boards import board, forecast, measured, row
from support.terminal import until
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.widgets import ContentSwitcher, Static

from forewarp.agent.candidates import Candidates
from forewarp.agent.tui import candidates as columns
from forewarp.agent.tui import wording
from forewarp.agent.tui.app import ForewarpApp
from forewarp.agent.tui.candidates import CandidatesPane, CandidateTable
from forewarp.agent.tui.wording import times

STYLE = Path(inspect.getfile(ForewarpApp)).with_name(str(ForewarpApp.CSS_PATH))
Snapshot = Callable[[Pilot[Any], str], Awaitable[None]]


class Pane(App[None]):
    CSS_PATH = STYLE

    def __init__(self, shown: Candidates) -> None:
        super().__init__()
        self.shown = shown
        self.messages: list[CandidatesPane.Selected] = []

    def compose(self) -> ComposeResult:
        yield CandidatesPane()

    def on_mount(self) -> None:
        self.pane.load(self.shown)
        self.query_one(CandidateTable).focus()

    @property
    def pane(self) -> CandidatesPane:
        return self.query_one(CandidatesPane)

    def on_candidates_pane_selected(self, message: CandidatesPane.Selected) -> None:
        self.messages.append(message)

    @property
    def numbers(self) -> list[int]:
        return [r.number for r in self.pane.rows]


async def test_it_looks_as_recorded_wide_and_narrow(snapshot: Snapshot) -> None:
    app = Pane(board(12, ("softmax", "layernorm")))
    async with app.run_test(size=(140, 16)) as pilot:
        await pilot.pause()
        await snapshot(pilot, "candidates_wide")
        await pilot.resize_terminal(44, 16)
        await pilot.pause()
        await snapshot(pilot, "candidates_narrow")


async def test_keys_sort_reverse_and_filter() -> None:
    app = Pane(board(20, ("softmax", "layernorm")))
    async with app.run_test(size=(140, 30)) as pilot:
        await pilot.press("S")
        assert app.numbers == list(range(20, 0, -1))
        await pilot.press("m")
        assert app.numbers == list(range(20, 0, -2))
        await pilot.press("m", "t")
        assert {r.forecast.task for r in app.pane.rows} == {"layernorm"}
        await pilot.press("t", "t")
        assert len(app.numbers) == 20


async def test_a_click_on_a_head_sorts_and_what_has_no_value_stands_last() -> None:
    app = Pane(board(20))
    async with app.run_test(size=(140, 30)) as pilot:
        table = app.query_one(CandidateTable)
        await until(pilot, lambda: "measured" in table.render_line(0).text)
        heads = table.render_line(0).text
        for falling in (True, False):
            await pilot.click(CandidateTable, offset=(heads.index("measured") + 2, 0))
            found = [r.measured.speedup for r in app.pane.rows if r.measured and r.measured.speedup]
            assert found == sorted(found, reverse=falling)
            assert not any(r.measured and r.measured.speedup for r in app.pane.rows[len(found) :])


async def test_enter_and_clicks_choose_and_moving_only_points() -> None:
    app = Pane(board(9))
    async with app.run_test(size=(100, 20)) as pilot:
        await pilot.press("home", "down", "enter")
        await pilot.click(CandidateTable, offset=(10, 5))
        assert [m.row.number for m in app.messages if not m.moved] == [2, 5]
        moved = [m.row.number for m in app.messages if m.moved]
        assert [number for number, _ in groupby(moved)] == [9, 1, 2, 5]


async def test_a_measurement_changes_its_row_and_the_cursor_stays() -> None:
    made = board(6, every=99)
    app = Pane(made)
    async with app.run_test(size=(120, 12)) as pilot:
        await pilot.press("s", "s", "home", "down")
        under = app.pane.selected
        changed = made.apply(measured(row(made, 4).forecast, 4, ratio=9.0))
        assert changed is not None
        app.pane.refresh_rows(changed)
        await until(
            pilot,
            lambda: any(
                "9.00× [" in s.text and s.text.split()[0] == "★4" for s in app.screen._compositor.render_strips()
            ),
        )
        assert app.pane.selected is under


async def test_new_rows_are_followed_from_the_last_row_only() -> None:
    made = board(40)
    app = Pane(made)
    async with app.run_test(size=(100, 12)) as pilot:
        await pilot.pause()
        await pilot.press("home")
        app.set_focus(None)
        await pilot.pause()
        added = made.apply(forecast(41))
        assert added is not None
        app.pane.refresh_rows(added)
        await pilot.pause()
        assert app.screen._compositor.render_strips()[3].text.split()[0] == "1"
        app.query_one(CandidateTable).focus()
        await pilot.press("end")
        app.set_focus(None)
        await pilot.pause()
        for number in (42, 43):
            added = made.apply(forecast(number))
            assert added is not None
            app.pane.refresh_rows(added)
        await until(pilot, lambda: app.screen._compositor.render_strips()[-1].text.split()[0] == "43")


class Switched(App[None]):
    CSS_PATH = STYLE
    AUTO_FOCUS = None

    def compose(self) -> ComposeResult:
        with ContentSwitcher(initial="other"):
            yield Static("", id="other")
            yield CandidatesPane(id="candidates")


async def test_rows_that_came_out_of_sight_are_in_sight_once_shown() -> None:
    app = Switched()
    async with app.run_test(size=(100, 12)) as pilot:
        app.query_one(CandidatesPane).load(board(40))
        await pilot.pause()
        app.query_one(ContentSwitcher).current = "candidates"
        await until(pilot, lambda: "40" in app.screen._compositor.render_strips()[-1].text.split()[:2])


async def test_control_characters_do_not_reach_the_terminal() -> None:
    made = Candidates()
    made.apply(forecast(1, "evil\x1b]0;title\x07"))
    made.apply(forecast(2, "fine"))
    app = Pane(made)
    async with app.run_test(size=(140, 8)) as pilot:
        await until(pilot, lambda: "evil?]0;tit…" in app.query_one(CandidateTable).render_line(1).text)


@pytest.mark.parametrize("width", range(8, 170, 7))
def test_columns_fit_and_the_most_wanted_stay(width: int) -> None:
    taken = columns.fit(width)
    assert sum(w for _, w in taken) + columns.GAP * (len(taken) - 1) <= max(width, 0)
    names = {c.name for c, _ in taken}
    if width >= 38:
        assert {"number", "change", "measured", "forecast"} <= names
    if width >= 69:
        assert {"surprise", "verdict"} <= names
    if width >= 157:
        assert names == set(columns.BY_NAME)


@pytest.mark.parametrize(
    ("ratio", "text"), [(1.234, "1.23×"), (12.34, "12.3×"), (9.996, "10.0×"), (123.4, "123×"), (0.0012, "1e-03×")]
)
def test_speedups_take_six_characters_at_most(ratio: float, text: str) -> None:
    assert times(ratio) == text


def test_names_of_tunables_are_shortened_before_rows_look_alike() -> None:
    one, other = "#1: MOMENTS=1 THREADS=256 VEC=4 UNROLL=2", "#1: MOMENTS=1 THREADS=256 VEC=8 UNROLL=2"
    assert wording.fitting(one, 40) == one
    assert wording.fitting(one, 30) == "#1: MOM=1 THR=256 VEC=4 UNR=2"
    assert wording.fitting(one, 24) != wording.fitting(other, 24)
    assert wording.fitting("BLOCK_M=64 BLOCK_N=32", 18) == "BLO_M=64 BLO_N=32"
    assert wording.fitting("STAGES=64 STAGED=32", 16) == "STAGES=64 STAGE…", "no two names become one"
