"""Forecast against measurement, and how often forecasts came true."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from forewarp.report.html.frame import Frame, linear_axis, log_axis
from forewarp.report.html.markup import Cell, kind_of, legend, number, table
from forewarp.tools.run_report import usable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarp.tools.calibration import ReliabilityPoint
    from forewarp.tools.run_figures import Reliability, RunFigures
    from forewarp.tools.run_report import SearchResult

MANY = 400
FEW = 30
"""Outcomes below which calibration figures are mostly chance."""


def charts(document: SearchResult, figures: RunFigures) -> str:
    """Return the scatter, the reliability diagrams of who decided, and the scores of all; "" without forecasts."""
    drawn = _scatter(document)
    if figures.reliability:
        first = figures.reliability[0]
        gap = "" if first.scores.ece is None else f", {first.scores.ece:.0%} apart on average (ECE)"
        drawn += _diagram(
            *(first, first.scores.confidence, f"Confidence of {first.forecaster} against how often it was right{gap}"),
            *("confidence in the likeliest range", "share that was right"),
        )
        drawn += _diagram(
            *(
                first,
                first.scores.faster,
                f"Chance of being faster, as {first.forecaster} said, against how often it was so",
            ),
            *("forecast chance of correct and faster", "share that was correct and faster"),
        )
        drawn += _scores(figures.reliability)
    return drawn


def lead(figures: RunFigures) -> str:
    """Return how far the figures can be believed."""
    outcomes = max((r.outcomes for r in figures.reliability), default=0)
    if not outcomes:
        return ""
    said = "Forecasts as they were made before each measurement, uncorrected afterwards."
    if outcomes < FEW:
        said += f" {outcomes} outcomes are few: calibration figures of so few are mostly chance."
    return said


def _scatter(document: SearchResult) -> str:
    pairs = [(c, c.forecast.median, found) for c in document.candidates if c.forecast and (found := usable(c.measured))]
    if not pairs:
        return ""
    values = [v for _, f, m in pairs for v in (f.ratio, m.low, m.high)]
    # The widest forecasts reach so far that they would squeeze all others together.
    values += [min(values) / 1.3, max(values) * 1.3]
    axis = log_axis("forecast speed-up (80 % interval)", values, "×")
    frame = Frame(axis, log_axis("measured speed-up (95 % interval)", values, "×"), 430, 400)
    frame.line((axis.low, axis.low), (axis.high, axis.high), "none", 'stroke-dasharray="4 3"')
    many = len(pairs) > MANY
    for c, f, m in [] if many else pairs:
        kind = kind_of(c.measured.verdict if c.measured else "")
        frame.line((f.low, m.ratio), (f.high, m.ratio), kind, 'stroke-opacity=".45"')
        frame.line((f.ratio, m.low), (f.ratio, m.high), kind)
    for c, f, m in pairs:
        told = f"{c.kernel.short}: forecast {f}, measured {m}"
        frame.dot(f.ratio, m.ratio, kind_of(c.measured.verdict if c.measured else ""), told)
    inside = sum(f.low <= m.ratio <= f.high for _, f, m in pairs)
    title = f"{inside} of {len(pairs)} measured speed-ups lie in their forecast's 80 % interval"
    caption = (
        "Each dot is a correct candidate; bars are intervals, cut where they leave the chart; on the dashed line "
        "forecast and measurement agree." + (" Bars are left out, because there are many." if many else "")
    )
    return frame.figure(title, caption, legend([c.measured.verdict for c, _, _ in pairs if c.measured]))


def _diagram(found: Reliability, points: Sequence[ReliabilityPoint], title: str, said: str, truth: str) -> str:
    if not points:
        return ""
    frame = Frame(linear_axis(said, 0, 1), linear_axis(truth, 0, 1), 330, 320)
    frame.line((0, 0), (1, 1), "none", 'stroke-dasharray="4 3"')
    most = max(p.count for p in points)
    for p in points:
        told = f"{p.count} forecasts of {p.forecast:.0%} on average: {p.observed:.0%} came true"
        frame.line((p.forecast, p.low), (p.forecast, p.high), "best")
        frame.dot(p.forecast, p.observed, "best", told, round(2.5 + 4 * math.sqrt(p.count / most), 1))
    count = sum(p.count for p in points)
    caption = f"{count} forecasts of {found.forecaster} in tenths; bars are exact 95 % intervals of the share."
    return frame.figure(title, caption)


def _scores(found: Sequence[Reliability]) -> str:
    head = ("forecaster", "outcomes", "ECE", "Brier", "CRPS", "NLL (nats)", "in 80 % interval", "Brier of p(correct)")
    rows: list[tuple[Cell | str, ...]] = []
    for r in found:
        s = r.scores
        covered = Cell("" if s.coverage is None else f"{s.coverage:.0%}", "n")
        numbers = (number(v, ".3f") for v in (s.ece, s.brier, s.crps, s.nll))
        rows.append((r.forecaster, number(r.outcomes, "d"), *numbers, covered, number(s.brier_valid, ".3f")))
    note = (
        '<p class="soft">ECE: gap between confidence and accuracy of the likeliest of eight ranges. Brier and CRPS: '
        "distance of the eight probabilities to what came, 0 is best. "
        "Correct candidates only, but for the last column.</p>"
    )
    return table(head, rows) + note
