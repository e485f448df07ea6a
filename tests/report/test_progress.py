"""The live view: what it shows at each width, and where it gives way to lines."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Sequence

import pytest
from rich.console import Console
from support.clock import Clock

from forewarp.core.budget import Budget, Spend
from forewarp.core.values import Cost, Decision, Forecast
from forewarp.report import progress
from forewarp.report import tally as tallies
from forewarp.report.tally import Tally
from forewarp.search import events

EVEN = (0.125,) * 8


def measured(kernel: str, speedup: float, spend: Spend) -> events.Measured:
    interval = (speedup, speedup * 0.9, speedup * 1.1)
    return events.Measured("r-1", 0, kernel, 1, "candidate", "ok", "faster", *interval, speedup, spend)


def story() -> list[events.Event]:
    """A run in the middle of its second round: a cascade that asked its model for one candidate."""
    kernels = [c * 64 for c in "abcdef"]
    paid = Cost(2.0, 900, 60, 0.02)
    told: list[events.Event] = [
        events.RunStarted("r-1", "softmax", "NVIDIA H200", "tunables", "cascade", Budget(10, None, 1.0, None, 600.0))
    ]
    told += [events.Proposed("r-1", 0, k, i, "cuda", {"TILE": 64}, "t", "", "") for i, k in enumerate(kernels)]
    told += [events.Accepted("r-1", 0, k, 0.5) for k in kernels[:4]]
    told += [events.Rejected("r-1", 0, kernels[4], "compile_error", "no such register")]
    free = Forecast(EVEN, 0.9, "learned")
    told += [events.Forecasted("r-1", 0, k, Forecast(EVEN, 0.9, "cascade", tiers=(free,))) for k in kernels[:3]]
    told += [events.Escalated("r-1", 0, "llm:m", 1, paid)]
    told += [events.Decided("r-1", 0, k, Decision("measure", "it promises 0.3 octaves", 0.3)) for k in kernels[:2]]
    told += [events.Decided("r-1", 0, kernels[2], Decision("skip", "others promise more", 0.1))]
    told += [events.Measuring("r-1", 0, kernels[0], 1, "candidate")]
    told += [measured(kernels[0], 2.0, Spend(5, 4.5, 0.02, 960, 30.0))]
    told += [events.BudgetWarning("r-1", "measurements", 5, 10, 0.5), events.Measuring("r-1", 0, kernels[1], 2, "c")]
    return told


def drawn(tally: Tally, width: int) -> str:
    # With a height, too, or it would have the size that is usual where the terminal is said to be a dumb one.
    console = Console(width=width, height=40, file=io.StringIO(), force_terminal=True, color_system=None)
    console.print(progress.panel(tally, width))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_panel_fits_and_says_what_goes_on(width: int) -> None:
    tally = Tally()
    for event in story():
        tally.see(event)
    text = drawn(tally, width)
    shown = text.splitlines()
    assert len(shown) <= 20
    assert {len(line) for line in shown} == {width}
    assert "2× [1.8, 2.2]" in text
    assert "measuring bbbbbbbbbb" in text
    assert "1 compiling · 1 being forecast" in text or width == 60
    assert "learned 3 · llm:m 1 ($0.02) · device 1" in text
    assert re.search(r"measured .*5 of 10 50%", text)
    assert re.search(r"dollars .*\$0\.020 of \$1\.00 2%", text)
    assert re.search(r"wall time .* of 10\.0 min \d+%, \d", text)
    assert "measure aaaaaaaaaa  it promises" in text
    assert "skip cccccccccc  others promise more" in text
    assert "50% of the budget" in text


def test_it_can_be_drawn_after_each_event_and_before_the_first() -> None:
    tally = Tally()
    assert "starting" in drawn(tally, 80)
    for event in story():
        tally.see(event)
        drawn(tally, 80)
    tally.see(events.RunFinished("r-1", "finished", "done", 2.0, Spend(10)))
    assert "now   finished" in drawn(tally, 80)


def test_the_curve_has_the_best_at_each_place() -> None:
    assert progress.sparkline([], 4, 0.5) == "    "
    assert progress.sparkline([(0.25, 0.0), (0.75, 1.0)], 4, 1.0) == "▁▁██"
    assert progress.sparkline([(0.5, 1.0)], 4, 1.0) == " ▄▄▄"


def written(console: Console, told: Sequence[events.Event], *, quiet: bool = False, plain: bool = False) -> str:
    with progress.shown_live(console, quiet=quiet, plain=plain, spend=Spend) as see:
        for event in told:
            see(event)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def console(*, terminal: bool, width: int = 80) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=width, markup=False, highlight=False)


def test_lines_where_a_panel_cannot_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for text in (
        written(console(terminal=False), story()),
        written(console(terminal=True), story(), plain=True),
        written(console(terminal=True, width=40), story()),
    ):
        assert "[5/10]  aaaaaaaaaa  2× [1.8, 2.2] faster  best 2× [1.8, 2.2]" in text
        assert "50% of the budget: 5 of 10 measurements are spent" in text
        assert "╭" not in text
    assert written(console(terminal=False), story(), quiet=True) == ""
    assert written(console(terminal=True), story(), quiet=True) == ""
    monkeypatch.setenv("TERM", "dumb")
    assert "╭" not in written(console(terminal=True), story())


def test_a_line_says_what_is_spent_and_a_failure_once() -> None:
    tally = Tally()
    tally.see(events.RunStarted("r-1", "softmax", "NVIDIA H200", "tunables", "learned", Budget(3)))
    failed = events.Measured(
        "r-1", 0, "a" * 64, 1, "candidate", "incorrect", "incorrect", None, None, None, None, Spend(2)
    )
    assert tally.see(failed) == "[2/3]  aaaaaaaaaa  incorrect  best –"
    past_half = events.BudgetWarning("r-1", "measurements", 2, 3, 0.5)
    assert tally.see(past_half) == "67% of the budget: 2 of 3 measurements are spent"


def test_a_terminal_without_colour_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    text = written(console(terminal=True), story())
    assert "╭" in text
    assert not re.search(r"\x1b\[[\d;]*3[0-9]m", text)


def test_the_view_is_drawn_four_times_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    screen = console(terminal=True)
    start = time.monotonic()
    with progress.shown_live(screen) as see:
        for event in story() * 20:
            see(event)
        time.sleep(0.6)
    seconds = time.monotonic() - start
    assert isinstance(screen.file, io.StringIO)
    # One at the start and one at the end besides.
    assert screen.file.getvalue().count("╭") <= seconds * progress.REFRESHES_PER_S + 3


def test_what_earlier_processes_did_counts_but_not_for_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(tallies, "time", clock)
    tally = Tally()
    for event in story():
        tally.see(event)
    tally.see(events.RunResumed("r-1", 1, Spend(5, 4.5, 0.02, 960, 30.0)))
    assert tally.left("measurements") is None
    assert tally.spent("wall_s") >= 30.0
    assert tally.left("wall_s") == pytest.approx(570.0)
    clock.now = 10.0
    tally.see(measured("f" * 64, 1.5, Spend(6, 5.0, 0.02, 960, 40.0)))
    assert tally.left("measurements") == pytest.approx(40.0)
    assert tally.best is not None
    assert tally.best.ratio == 2.0
