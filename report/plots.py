"""Drawings in characters: best so far, measured against forecast, reliability."""

from __future__ import annotations

import math
import shutil
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from forewarp.tools.calibration import ReliabilityPoint
from forewarp.tools.parts import Interval
from forewarp.tools.run_report import CandidateLine, best_so_far, usable

WIDTH, HEIGHT = 76, 14
TICKS = (1 / 64, 1 / 32, 1 / 16, 0.125, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 6, 8, 16, 32, 64)
FINE = (*(k / 10 for k in range(1, 10)), 1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.75, 2, 2.25, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9, 10)
LEAST_TICKS = 4
_FRAME = 4
"""Rows of a drawing beside those of its curve."""
_LABEL, _ROWS = 8, 2
"""Columns and rows of a label with what keeps it from the next."""
SHARES = (0, 0.2, 0.4, 0.6, 0.8, 1)

_DRAWING = threading.Lock()  # plotext has one figure for the whole process


def of_run(candidates: Sequence[CandidateLine]) -> list[str]:
    """Return the plots of a run: best so far, and measured against forecast; those that have at least two points."""
    pairs = [(c.forecast.median, found) for c in candidates if c.forecast and (found := usable(c.measured))]
    drawn = (progress(best_so_far(candidates), fitting(WIDTH), HEIGHT), against(pairs, fitting(WIDTH), HEIGHT))
    return [plot for plot in drawn if plot]


def fitting(most: int) -> int:
    """Return how many columns a plot may take here."""
    return min(most, shutil.get_terminal_size((most, 24)).columns)


def progress(
    best: Sequence[Interval | None], width: int, height: int, *, each: Sequence[float | None] | None = None
) -> str:
    """Return the best speed-up after each measurement with its interval; "" with fewer than two.

    `best` has an item for each measurement, None while nothing worked. Sizes are in characters. With `each`, every
    measured speed-up has a point, what failed a cross at the foot, and only improvements have their interval.
    """
    curve = [(i, b) for i, b in enumerate(best, 1) if b is not None]
    if len(curve) < 2:
        return ""
    with _figure("best so far [95 %], by measurements made", width, height) as plot:
        steps = [(x, math.log2(b.ratio)) for i, b in curve for x in (i, i + 1)]
        plot.plot([x for x, _ in steps], [y for _, y in steps])
        values = [v for _, b in curve for v in (b.low, b.high)] + [e for e in each or () if e]
        if each is not None:
            shown = [(i, b) for i, b in curve if i == curve[0][0] or b != best[i - 2]]
        else:
            shown = curve[:: -(-len(curve) // width)]
        for i, b in shown:
            plot.plot([i, i], [math.log2(b.low), math.log2(b.high)])
        _points(plot, each or (), foot=math.log2(min(values)))
        _log_axis(plot.yticks, plot.ylim, values, (height - _FRAME) // _ROWS)
        last = curve[-1][0]
        places = [1, *range(step, last + 1, step)] if (step := -(-last // 8)) > 1 else list(range(1, last + 1))
        plot.xticks(places, [str(p) for p in places])
        return _text(plot)


def against(pairs: Sequence[tuple[Interval, Interval]], width: int, height: int, *, intervals: bool = True) -> str:
    """Return measured against forecast speed-up, each with its interval; "" with fewer than two pairs.

    A pair is a forecast and what was measured. Many are told apart better without `intervals`.
    """
    if len(pairs) < 2:
        return ""
    with _figure("measured (up), forecast (across), equal (···)", width, height) as plot:
        values = [v for pair in pairs for i in pair for v in ((i.low, i.high) if intervals else (i.ratio,))]
        low, high = math.log2(min(values)), math.log2(max(values))
        steps = [low + (high - low) * k / 20 for k in range(21)]
        plot.scatter(steps, steps, marker="·")
        for forecast, found in pairs if intervals else ():
            x, y = math.log2(forecast.ratio), math.log2(found.ratio)
            plot.plot([math.log2(forecast.low), math.log2(forecast.high)], [y, y], marker="-")
            plot.plot([x, x], [math.log2(found.low), math.log2(found.high)], marker="|")
        plot.scatter([math.log2(f.ratio) for f, _ in pairs], [math.log2(m.ratio) for _, m in pairs], marker="●")
        _log_axis(plot.yticks, plot.ylim, values, (height - _FRAME) // _ROWS)
        _log_axis(plot.xticks, plot.xlim, values, width // _LABEL)
        return _text(plot)


def reliability(points: Sequence[ReliabilityPoint], width: int, height: int) -> str:
    """Return how often forecasts came true (upwards) by how probable they were said to be; "" without any point.

    On the dots of the diagonal, forecasts are calibrated.
    """
    if not points:
        return ""
    with _figure("", width, height) as plot:
        steps = [k / 40 for k in range(41)]
        plot.scatter(steps, steps, marker="·")
        for p in points:
            plot.plot([p.forecast, p.forecast], [p.low, p.high], marker="|")
        plot.scatter([p.forecast for p in points], [p.observed for p in points], marker="●")
        plot.xticks(SHARES, [f"{t:.1f}" for t in SHARES])
        plot.yticks(SHARES, [f"{t:.1f}" for t in SHARES])
        plot.xlim(0, 1)
        plot.ylim(0, 1)
        return _text(plot)


@contextmanager
def _figure(title: str, width: int, height: int) -> Generator[Any]:
    import plotext

    with _DRAWING:
        plotext.clear_figure()
        plotext.theme("clear")
        plotext.limit_size(False, False)
        plotext.plotsize(width, height)
        if title:
            plotext.title(title)
        yield plotext


def _points(plot: Any, each: Sequence[float | None], foot: float) -> None:
    worked = [(i, math.log2(e)) for i, e in enumerate(each, 1) if e]
    failed = [i for i, e in enumerate(each, 1) if not e]
    for marker, points in (("x", [(i, foot) for i in failed]), ("●", worked)):
        if points:
            plot.scatter([x for x, _ in points], [y for _, y in points], marker=marker)


def _log_axis(ticks: Any, limits: Any, values: Sequence[float], room: int) -> None:
    """Label an axis that has room for so many labels, the rounder ones first; none falls upon another."""
    low, high = min(values), max(values)
    apart = math.log2(high / low) / max(room, 1)
    chosen = [t for t in {*TICKS, *FINE} if low * 0.99 <= t <= high * 1.01]
    if len(chosen) < LEAST_TICKS:
        chosen = [low, math.sqrt(low * high), high]
    placed: list[float] = []
    for tick in sorted(chosen, key=lambda t: (math.log2(t) % 1 != 0, t not in TICKS, abs(math.log2(t)))):
        if all(abs(math.log2(tick / other)) > apart for other in placed):
            placed.append(tick)
    chosen = sorted(placed)
    ticks([math.log2(t) for t in chosen], [f"{t:.3g}×" for t in chosen])
    limits(math.log2(low) - 0.05, math.log2(high) + 0.05)


def _text(plot: Any) -> str:
    return plot.uncolorize(plot.build()).rstrip()
