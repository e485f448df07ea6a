"""The run as one self-contained HTML page, with inline SVG and no script."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from forewarp.cli import display
from forewarp.cli.measure_tables import device_line
from forewarp.cli.run_tables import oracles, ranked
from forewarp.tools.parts import shown
from forewarp.tools.run_report import best_so_far, in_order, usable

if TYPE_CHECKING:
    from forewarp.cli.documents import SearchDocument
    from forewarp.tools.parts import Interval
    from forewarp.tools.run_report import BestKernel

W, H, LEFT, BOTTOM, TOP = 540, 300, 56, 34, 12
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:1240px;margin:2rem auto;padding:0 1rem;color:#1c1c1c;background:#fff}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}table{border-collapse:collapse;font-size:13px}
td,th{text-align:left;padding:.25rem .5rem;border-bottom:1px solid #ddd;white-space:nowrap}
.wide td:nth-child(4){white-space:normal}.wide{overflow-x:auto}
.faster{color:#1a7f37}.slower{color:#b42318}.ambiguous{color:#9a6700}.suspicious,.impossible{color:#8250df}
pre{background:#f5f5f5;padding:1rem;overflow:auto;font-size:12px}figure{display:inline-block;margin:0}
figcaption{font-size:13px;color:#555;padding-right:1rem}
svg{font:11px sans-serif}.label{background:#ffe9b0;padding:.1rem .5rem}
"""


def page(document: SearchDocument) -> str:
    """Return the page."""
    label = '<p class="label">Replay: these numbers were looked up in a recorded pool.</p>'
    best = document.best
    winner = source = ""
    if best is not None:
        winner = f"<h2>Best kernel</h2>{_winner(best)}"
        source = f"<h2>Source of the best kernel</h2><pre>{escape(best.source)}</pre>"
    spent = escape(display.amounts(document.budget.spent, document.budget.limit))
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>forewarp {escape(document.run_id)}</title>
<style>{_STYLE}</style>
<h1>{escape(document.task)} on {escape(document.device.name)}</h1>
{label if document.source == "replay" else ""}
<p>{escape(document.summary)}</p>
<p>{escape(oracles(document))}</p>
<p>Run {escape(document.run_id)}, {escape(document.status)}: {escape(document.reason)}. Spent {spent}.
Proposer {escape(document.proposer)}, forecaster {escape(document.forecaster or "none")}.</p>
{_progress(document)}{_scatter(document)}{winner}
<h2>Candidates: forecast against measurement</h2><div class="wide">{_table(document)}</div>{source}</html>
"""


class _Axes:
    """A plot area with log2 axes of the speed-up; the x axis is linear where a count is given."""

    def __init__(self, values: Sequence[float], count: int | None) -> None:
        self.low, self.high = math.log2(min(values)) - 0.1, math.log2(max(values)) + 0.1
        self.count = count
        self.parts: list[str] = []
        for power in range(math.ceil(self.low), math.floor(self.high) + 1):
            y = self.y(2.0**power)
            self.line(LEFT, y, W, y, "#e4e4e4")
            self.text(LEFT - 6, y + 4, f"{2.0**power:g}×", "end")
            if count is None:
                x = self.x(2.0**power)
                self.line(x, TOP, x, H - BOTTOM, "#e4e4e4")
                self.text(x, H - BOTTOM + 16, f"{2.0**power:g}×", "middle")
        for k in range(1, (count or 0) + 1, max(1, (count or 0) // 8)):
            self.text(self.x(k), H - BOTTOM + 16, str(k), "middle")

    def x(self, value: float) -> float:
        share = (value - 0.5) / self.count if self.count else (math.log2(value) - self.low) / (self.high - self.low)
        return LEFT + share * (W - LEFT)

    def y(self, value: float) -> float:
        return H - BOTTOM - (math.log2(value) - self.low) / (self.high - self.low) * (H - BOTTOM - TOP)

    def line(self, x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1) -> None:
        ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
        self.parts.append(f'<line {ends} stroke="{colour}" stroke-width="{width}"/>')

    def text(self, x: float, y: float, text: str, anchor: str) -> None:
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>')

    def dot(self, x: float, y: float, colour: str, title: str) -> None:
        self.parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"><title>{escape(title)}</title></circle>'
        )

    def figure(self, caption: str) -> str:
        drawn = "".join(self.parts)
        svg = f'<svg viewBox="0 0 {W + 10} {H}" width="{W + 10}" height="{H}" role="img">{drawn}</svg>'
        return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def _progress(document: SearchDocument) -> str:
    measured = in_order(document.candidates)
    points = [(k, c.kernel.short, found) for k, (c, m) in enumerate(measured, 1) if (found := usable(m))]
    if not points:
        return ""
    axes = _Axes([v for _, _, i in points for v in (i.low, i.high, 1.0)], len(measured))
    for k, short, i in points:
        axes.line(axes.x(k), axes.y(i.low), axes.x(k), axes.y(i.high), "#8aa4c8")
        axes.dot(axes.x(k), axes.y(i.ratio), "#8aa4c8", f"{short}: {i}")
    before: Interval | None = None
    for k, best in enumerate(best_so_far(document.candidates), 1):
        if best is not None:
            if before is not None:
                axes.line(axes.x(k), axes.y(before.ratio), axes.x(k), axes.y(best.ratio), "#c0392b", 2)
            until = axes.x(min(k + 1, len(measured)))
            axes.line(axes.x(k), axes.y(best.ratio), until, axes.y(best.ratio), "#c0392b", 2)
        before = best
    return axes.figure("Speed-up of each measured candidate (95 %) and best so far (red), by measurements made")


def _scatter(document: SearchDocument) -> str:
    pairs = [
        (c.kernel.short, c.forecast.median, found)
        for c in document.candidates
        if c.forecast and (found := usable(c.measured))
    ]
    if not pairs:
        return ""
    axes = _Axes([v for _, f, m in pairs for i in (f, m) for v in (i.low, i.high)], None)
    low, high = 2**axes.low, 2**axes.high
    axes.line(axes.x(low), axes.y(low), axes.x(high), axes.y(high), "#999")
    for _, f, m in pairs:
        axes.line(axes.x(f.low), axes.y(m.ratio), axes.x(f.high), axes.y(m.ratio), "#cfdbeb")
        axes.line(axes.x(f.ratio), axes.y(m.low), axes.x(f.ratio), axes.y(m.high), "#8aa4c8", 2)
    for short, f, m in pairs:
        axes.dot(axes.x(f.ratio), axes.y(m.ratio), "#2c5c99", f"{short}: forecast {f}, measured {m}")
    return axes.figure("Measured (95 %) against forecast (80 %) speed-up; on the grey line they agree")


def _winner(best: BestKernel) -> str:
    """Return the winner's shapes, what speaks for and against its times, and the state of the device."""
    head = ("shape", "speed-up [95 %]", "verdict", "kernel µs [95 %]", "reference µs [95 %]")
    rows = [
        (
            *(w.name, display.speedup(w.speedup), w.verdict, display.microseconds(w.candidate_us)),
            *(display.microseconds(w.reference_us), "–" if w.noise_percent is None else f"±{w.noise_percent:.2g} %"),
            *(display.speedup(pair) for pair in (w.warm, w.launched, w.cycles)),
        )
        for w in best.workloads
    ]
    more = ("noise floor", "warm L2", "with launch", "in cycles")
    device = device_line(best.device_state, best.workloads)
    lines = [shown(best.kernel.tunables)]
    lines.append(f"{display.speedup(best.speedup)}, {best.verdict}{', confirmed' if best.confirmed else ''}")
    lines += [f"Against it: {flag}" for flag in best.flags]
    lines += [f"Its outputs passed: {', '.join(best.checks)}"] if best.checks else []
    lines += [f"Device: {device}"] if device else []
    text = "".join(f"<p>{escape(line)}</p>" for line in lines if line)
    return f'{text}<div class="wide">{_grid((*head, *more), rows, 2)}</div>'


def _grid(head: Sequence[str], rows: Sequence[Sequence[str]], verdict: int) -> str:
    """Return a table whose column `verdict` is coloured by what it says."""
    body: list[str] = []
    for row in rows:
        marks = (f' class="{escape(cell)}"' if place == verdict else "" for place, cell in enumerate(row))
        cells = (f"<td{mark}>{escape(cell)}</td>" for mark, cell in zip(marks, row, strict=True))
        body.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table><tr>{''.join(f'<th>{escape(h)}</th>' for h in head)}</tr>{''.join(body)}</table>"


def _table(document: SearchDocument) -> str:
    head = (
        *("kernel", "round", "language", "tunables", "proposer"),
        *("forecast [80 %]", "p(correct)", "measured [95 %]", "came to"),
    )
    rows: list[tuple[str, ...]] = []
    for c in ranked(document.candidates):
        m = c.measured
        row = (
            *(c.kernel.short, str(c.round), c.kernel.language, shown(c.kernel.tunables), c.proposer),
            display.speedup(c.forecast.median) if c.forecast else "",
            f"{c.forecast.p_valid:.0%}" if c.forecast else "",
            display.speedup(m.speedup) if m else "",
            (m.verdict if m.status == "ok" else m.status) if m else (c.action or c.outcome),
        )
        rows.append(row)
    return _grid(head, rows, len(head) - 1)
