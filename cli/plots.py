"""Plots for the terminal: best so far against measurements, and forecast against measurement."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from forewarp.tools.run_report import best_so_far, usable

if TYPE_CHECKING:
    from forewarp.tools.run_report import CandidateLine

WIDTH, HEIGHT = 76, 14
TICKS = (1 / 64, 1 / 32, 1 / 16, 0.125, 0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 16, 32, 64)


def progress(candidates: Sequence[CandidateLine]) -> str:
    """Return the best speed-up after each measurement with its 95 % interval; "" with fewer than two measurements."""
    curve = [(i, best) for i, best in enumerate(best_so_far(candidates), 1) if best is not None]
    if len(curve) < 2:
        return ""
    plot = _fresh("best so far with its 95 % interval, by measurements made")
    steps = [(x, math.log2(b.ratio)) for i, b in curve for x in (i, i + 1)]
    plot.plot([x for x, _ in steps], [y for _, y in steps])
    for i, b in curve:
        plot.plot([i, i], [math.log2(b.low), math.log2(b.high)])
    _log_axis(plot.yticks, plot.ylim, [v for _, b in curve for v in (b.low, b.high)])
    last = curve[-1][0]
    places = [1, *range(step, last + 1, step)] if (step := -(-last // 8)) > 1 else list(range(1, last + 1))
    plot.xticks(places, [str(p) for p in places])
    return _text(plot)


def forecasts(candidates: Sequence[CandidateLine]) -> str:
    """Return measured against forecast speed-up, each with its interval; "" with fewer than two such candidates."""
    pairs = [(c.forecast.median, found) for c in candidates if c.forecast and (found := usable(c.measured))]
    if len(pairs) < 2:
        return ""
    plot = _fresh("measured (95 %) against forecast (80 %); on the dots they agree")
    values = [v for pair in pairs for i in pair for v in (i.low, i.high)]
    low, high = math.log2(min(values)), math.log2(max(values))
    steps = [low + (high - low) * k / 20 for k in range(21)]
    plot.scatter(steps, steps, marker="·")
    for forecast, found in pairs:
        x, y = math.log2(forecast.ratio), math.log2(found.ratio)
        plot.plot([math.log2(forecast.low), math.log2(forecast.high)], [y, y], marker="-")
        plot.plot([x, x], [math.log2(found.low), math.log2(found.high)], marker="|")
    plot.scatter([math.log2(f.ratio) for f, _ in pairs], [math.log2(m.ratio) for _, m in pairs], marker="●")
    _log_axis(plot.yticks, plot.ylim, values)
    _log_axis(plot.xticks, plot.xlim, values)
    return _text(plot)


def _fresh(title: str) -> Any:
    import plotext

    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plotsize(WIDTH, HEIGHT)
    plotext.title(title)
    return plotext


def _log_axis(ticks: Any, limits: Any, values: Sequence[float]) -> None:
    low, high = min(values), max(values)
    chosen = [t for t in TICKS if low * 0.99 <= t <= high * 1.01] or [low, high]
    ticks([math.log2(t) for t in chosen], [f"{t:.3g}×" for t in chosen])
    limits(math.log2(low) - 0.05, math.log2(high) + 0.05)


def _text(plot: Any) -> str:
    return plot.uncolorize(plot.build()).rstrip()
