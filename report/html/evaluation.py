"""An evaluation of forecasters as one self-contained HTML page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from forewarp.report import evaluate_tables
from forewarp.report.html.blocks import Page, Section, Table, TableCell
from forewarp.report.html.chart import ChartFigure, PlotArea, log_axis, share_axis

if TYPE_CHECKING:
    from forewarp.tools.evaluate import EvaluateResult, Scores

COLOURS = tuple(f"c{k}" for k in range(6))
"""Classes of Okabe and Ito's colours, which colour-blind people can tell apart."""
SIZE = (470, 370)
NAMES = {
    "confidence": ("confidence in the likeliest bin", "share that was right"),
    "faster": ("forecast P(valid and faster)", "share that was valid and faster"),
}


def page(result: EvaluateResult) -> str:
    """Return the page."""
    found = result.forecasters
    charts = [
        _reliability(found, "confidence"),
        _reliability(found, "faster"),
        _risk_coverage(found),
        _recovery(found),
        *(_scatter(s, colour) for s, colour in _coloured(found)),
    ]
    tables = [Section(f"t{k}", t.title, [_grid(t)]) for k, t in enumerate(evaluate_tables.tables(result, full=True))]
    return Page(
        name="evaluate",
        title="Evaluation of forecasters",
        summary=result.summary,
        about=evaluate_tables.about(result),
        sections=[Section("charts", "Charts", charts), *tables],
    ).html()


def _coloured(found: Sequence[Scores]) -> list[tuple[Scores, str]]:
    return [(s, COLOURS[place % len(COLOURS)]) for place, s in enumerate(found)]


def _keys(found: Sequence[Scores]) -> list[tuple[str, str]]:
    return [(colour, s.name) for s, colour in _coloured(found)]


def _reliability(found: Sequence[Scores], which: Literal["confidence", "faster"]) -> ChartFigure:
    said, truth = NAMES[which]
    frame = PlotArea(share_axis(said), share_axis(truth), *SIZE)
    frame.diagonal()
    for s, colour in _coloured(found):
        lines = s.confidence if which == "confidence" else s.faster
        most = max((b.count for b in lines), default=1)
        frame.path([(b.forecast, b.observed) for b in lines], f"curve {colour}")
        for b in lines:
            text = f"{s.name}: {b.count} forecasts of {b.forecast:.0%} on average, {b.observed:.0%} came true"
            frame.dot(b.forecast, b.observed, colour, text, 2 + 6 * math.sqrt(b.count / most))
    caption = "On the dashed line forecasts are true; the larger a dot, the more forecasts."
    return frame.figure(f"Reliability: {said} against how often it came true", caption, _keys(found))


def _risk_coverage(found: Sequence[Scores]) -> ChartFigure:
    frame = PlotArea(share_axis("share answered, the most confident first"), share_axis("share of wrong bins"), *SIZE)
    for s, colour in _coloured(found):
        frame.path(s.risk_coverage, f"curve {colour}")
    caption = "How often the likeliest bin is wrong if only confident forecasts count."
    return frame.figure("Risk and coverage", caption, _keys(found))


def _recovery(found: Sequence[Scores]) -> ChartFigure:
    x = log_axis("share measured (%), the best by forecast first", [1.0, 100.0])
    frame = PlotArea(x, share_axis("best found / best of all"), *SIZE)
    for place, (s, colour) in enumerate(_coloured(found)):
        frame.path([(100 * share, value) for share, value in s.recovery], f"curve {colour}")
        for share in evaluate_tables.SHARES:
            f, at = s.figures[f"recovery_{share}"], float(share) * (1 + 0.03 * place)
            if f.value is not None and f.low is not None and f.high is not None:
                frame.line((at, f.low), (at, f.high), colour, stroke_opacity=".6")
            if f.value is not None:
                frame.dot(at, f.value, colour, f"{s.name}: {f.value:.1%} at {share} %", 3)
    caption = "Best speed-up among the share that is measured, median over tasks (95 %)."
    return frame.figure("Recovery", caption, _keys(found))


def _scatter(scores: Scores, colour: str) -> ChartFigure | None:
    values = [v for p in scores.points for v in (p.forecast, p.measured)]
    if not values:
        return None
    frame = PlotArea(log_axis("forecast speed-up", values, "×"), log_axis("measured speed-up", values, "×"), *SIZE)
    frame.diagonal()
    for p in scores.points:
        frame.line((p.low, p.measured), (p.high, p.measured), colour, stroke_opacity=".08")
    for p in scores.points:
        interval = f"[{p.low:.3g}, {p.high:.3g}]"
        text = f"{p.task} {p.kernel}: forecast {p.forecast:.3g}× {interval}, measured {p.measured:.3g}×"
        frame.dot(p.forecast, p.measured, colour, text, 2.5)
    return frame.figure(
        f"{scores.name}: measured against forecast speed-up",
        "Bars are 80 % intervals; on the dashed line forecast and measurement agree.",
    )


def _grid(given: evaluate_tables.TextTable) -> Table:
    layout = ["", *("n" for _ in given.head[1:])]
    rows = [[TableCell(text, kind) for text, kind in zip(row, layout, strict=True)] for row in given.rows]
    return Table([TableCell(text, kind) for text, kind in zip(given.head, layout, strict=True)], rows)
