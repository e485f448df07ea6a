"""An evaluation as one self-contained HTML page, with inline SVG and no script."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING

from forewarp.report.evaluate_tables import SHARES, about, tables

if TYPE_CHECKING:
    from forewarp.report.evaluate_tables import Table
    from forewarp.tools.evaluate import EvaluateResult, ReliabilityLine, Scores

W, H, LEFT, RIGHT, TOP, BOTTOM = 470, 370, 60, 24, 16, 46
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Okabe and Ito's colours, which colour-blind people can tell apart."""

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:1240px;margin:2rem auto;padding:0 1rem;color:#1c1c1c;background:#fff}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:13px}
td,th{text-align:right;padding:.25rem .6rem;border-bottom:1px solid #ddd;white-space:nowrap}
td:first-child,th:first-child{text-align:left}
figure{display:inline-block;margin:0 1rem 1rem 0;vertical-align:top;width:480px}
figcaption{font-size:13px;color:#555}.key{padding-right:1rem}.about{color:#555;font-size:13px}
svg{font:11px system-ui,sans-serif}
"""

Scale = Callable[[float], float]


def page(result: EvaluateResult) -> str:
    """Return the page."""
    keys = "".join(
        f'<span class="key" style="color:{_colour(i)}">● {escape(s.name)}</span>'
        for i, s in enumerate(result.forecasters)
    )
    plots = [
        _reliability(result.forecasters, "confidence"),
        _reliability(result.forecasters, "faster"),
        _risk_coverage(result.forecasters),
        _recovery(result.forecasters),
        *(_scatter(s, _colour(i)) for i, s in enumerate(result.forecasters)),
    ]
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>forewarp evaluate</title>
<style>{_STYLE}</style>
<h1>Evaluation of forecasters</h1>
<p>{escape(result.summary)}</p><p class="about">{escape(about(result))}</p>
<p>{keys}</p>{"".join(plots)}
{"".join(_grid(table) for table in tables(result, full=True))}</html>
"""


class _Frame:
    """A plot area: a scale for each axis, which maps a value to 0..1, and what is drawn on it."""

    def __init__(self, x: Scale, y: Scale, names: tuple[str, str]) -> None:
        self._x, self._y = x, y
        self._parts: list[str] = []
        self._text((LEFT + W - RIGHT) / 2, H - 8, names[0], "middle")
        middle = (TOP + H - BOTTOM) / 2
        self._text(14, middle, names[1], "middle", f' transform="rotate(-90 14 {middle:.1f})"')

    def x(self, value: float) -> float:
        return LEFT + self._x(value) * (W - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return H - BOTTOM - self._y(value) * (H - TOP - BOTTOM)

    def ticks(self, xs: Sequence[tuple[float, str]], ys: Sequence[tuple[float, str]]) -> None:
        for value, text in xs:
            self._line(self.x(value), TOP, self.x(value), H - BOTTOM, "#e4e4e4")
            self._text(self.x(value), H - BOTTOM + 15, text, "middle")
        for value, text in ys:
            self._line(LEFT, self.y(value), W - RIGHT, self.y(value), "#e4e4e4")
            self._text(LEFT - 6, self.y(value) + 4, text, "end")

    def line(self, a: tuple[float, float], b: tuple[float, float], colour: str, more: str = "") -> None:
        self._line(self.x(a[0]), self.y(a[1]), self.x(b[0]), self.y(b[1]), colour, more)

    def path(self, points: Sequence[tuple[float, float]], colour: str) -> None:
        drawn = " ".join(f"{self.x(a):.1f},{self.y(b):.1f}" for a, b in points)
        self._parts.append(f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="2"/>')

    def dot(self, x: float, y: float, radius: float, colour: str, title: str, opacity: float = 1.0) -> None:
        place = f'cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="{radius:.1f}"'
        told = f"<title>{escape(title)}</title>"
        self._parts.append(f'<circle {place} fill="{colour}" fill-opacity="{opacity}">{told}</circle>')

    def figure(self, caption: str) -> str:
        drawn = "".join(self._parts)
        svg = f'<svg viewBox="0 0 {W} {H}" width="{W}" height="{H}" role="img" aria-label="{escape(caption)}">'
        return f"<figure>{svg}{drawn}</svg><figcaption>{escape(caption)}</figcaption></figure>"

    def _line(self, x1: float, y1: float, x2: float, y2: float, colour: str, more: str = "") -> None:
        ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
        self._parts.append(f'<line {ends} stroke="{colour}" {more}/>')

    def _text(self, x: float, y: float, text: str, anchor: str, more: str = "") -> None:
        self._parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(text)}</text>')


def _reliability(found: Sequence[Scores], which: str) -> str:
    named = {"confidence": "confidence in the likeliest bin", "faster": "forecast P(valid and faster)"}
    truth = {"confidence": "share that was right", "faster": "share that was valid and faster"}
    frame = _Frame(float, float, (named[which], truth[which]))
    frame.ticks(_shares(), _shares())
    frame.line((0, 0), (1, 1), "#999", 'stroke-dasharray="4 3"')
    for place, scores in enumerate(found):
        lines: list[ReliabilityLine] = scores.confidence if which == "confidence" else scores.faster
        most = max((b.count for b in lines), default=1)
        frame.path([(b.forecast, b.observed) for b in lines], _colour(place))
        for b in lines:
            told = f"{scores.name}: {b.count} forecasts of {b.forecast:.0%} on average, {b.observed:.0%} came true"
            frame.dot(b.forecast, b.observed, 2 + 6 * math.sqrt(b.count / most), _colour(place), told, 0.7)
    return frame.figure(
        f"Reliability: {named[which]} against how often it came true. On the dashed line forecasts are true; "
        "the larger a dot, the more forecasts."
    )


def _risk_coverage(found: Sequence[Scores]) -> str:
    frame = _Frame(float, float, ("share answered, the most confident first", "share of wrong bins"))
    frame.ticks(_shares(), _shares())
    for place, scores in enumerate(found):
        frame.path(scores.risk_coverage, _colour(place))
    return frame.figure("Risk and coverage: how often the likeliest bin is wrong if only confident forecasts count.")


def _recovery(found: Sequence[Scores]) -> str:
    lowest = min((r for s in found for _, r in s.recovery), default=0.0)
    floor = max(0.0, math.floor(10 * lowest - 0.5) / 10)
    frame = _Frame(
        lambda share: math.log(share / 0.01) / math.log(100),
        lambda value: (max(value, floor) - floor) / (1 - floor),
        ("share measured, the best by forecast first", "best found / best of all"),
    )
    apart = 0.1 if floor >= 0.3 else 0.2
    steps = [1 - apart * k for k in range(round((1 - floor) / apart) + 1) if 1 - apart * k >= floor - 1e-9]
    xs = [(v, f"{v * 100:g} %") for v in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)]
    frame.ticks(xs, [(v, f"{v * 100:.0f} %") for v in steps])
    for place, scores in enumerate(found):
        frame.path(scores.recovery, _colour(place))
        for share in SHARES:
            f, x = scores.figures[f"recovery_{share}"], float(share) / 100 * (1 + 0.03 * place)
            if f.value is None:
                continue
            if f.low is not None and f.high is not None:
                frame.line((x, f.low), (x, f.high), _colour(place), 'stroke-opacity="0.6"')
            frame.dot(x, f.value, 3, _colour(place), f"{scores.name}: {f.value:.1%} at {share} %")
    return frame.figure("Recovery: best speed-up among the share that is measured, median over tasks (95 %).")


def _scatter(scores: Scores, colour: str) -> str:
    values = [v for p in scores.points for v in (p.forecast, p.measured)]
    if not values:
        return ""
    low, high = math.log2(min(values)) - 0.2, math.log2(max(values)) + 0.2

    def scale(value: float) -> float:
        return min(max((math.log2(value) - low) / (high - low), 0.0), 1.0)

    frame = _Frame(scale, scale, ("forecast speed-up", "measured speed-up"))
    stride = max(1, round((high - low) / 8))
    ticks = [(2.0**k, f"{2.0**k:.3g}×") for k in range(math.ceil(low), math.floor(high) + 1, stride)]
    frame.ticks(ticks, ticks)
    ends = 2**low, 2**high
    frame.line((ends[0], ends[0]), (ends[1], ends[1]), "#999", 'stroke-dasharray="4 3"')
    for p in scores.points:
        frame.line((p.low, p.measured), (p.high, p.measured), colour, 'stroke-opacity="0.08"')
    for p in scores.points:
        told = (
            f"{p.task} {p.kernel}: forecast {p.forecast:.3g}× [{p.low:.3g}, {p.high:.3g}], measured {p.measured:.3g}×"
        )
        frame.dot(p.forecast, p.measured, 2.5, colour, told, 0.55)
    return frame.figure(f"{scores.name}: measured against forecast speed-up (80 %); on the dashed line they agree.")


def _shares() -> list[tuple[float, str]]:
    return [(k / 5, f"{k * 20} %") for k in range(6)]


def _colour(place: int) -> str:
    return COLOURS[place % len(COLOURS)]


def _grid(table: Table) -> str:
    head = "".join(f"<th>{escape(h)}</th>" for h in table.head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(c)}</td>' for c in row)}</tr>" for row in table.rows)
    return f'<h2>{escape(table.title)}</h2><div class="wide"><table><tr>{head}</tr>{body}</table></div>'
