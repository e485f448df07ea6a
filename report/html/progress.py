"""Best so far against what was spent, with every measured candidate."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from forewarp.core.values import UNTRUSTED
from forewarp.report.html.frame import Axis, Frame, count_axis, log_axis, short
from forewarp.report.html.markup import kind_of, legend, meaning
from forewarp.tools.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarp.tools.run_figures import RunFigures, Step
    from forewarp.tools.run_report import SearchResult

MANY = 400
"""Measurements above which only incumbents keep their whiskers."""

FAR = 4.0
"""A floor that is farther above the best than this is told, not drawn: it would flatten everything else."""


def chart(document: SearchResult, figures: RunFigures) -> str:
    """Return the chart with its legend; "" while nothing was measured."""
    steps = figures.steps
    timed = [s for s in steps if s.speedup and s.status == "ok" and s.verdict not in UNTRUSTED]
    if not timed:
        said = f"{counted(len(steps), 'measurement')}, none of them with a speed-up to show; see the failures below."
        return f"<p>{escape(said)}</p>" if steps else ""
    frame, floor = _frame(document, figures, timed)
    end = len(steps) + 0.5
    frame.line((0.5, 1.0), (end, 1.0), "ink", 'stroke-dasharray="2 3"')
    frame.said(0.6, 1.0, "the reference, 1×")
    if floor is not None:
        frame.line((0.5, floor), (end, floor), "odd", 'stroke-dasharray="7 4"')
        frame.said(0.6, floor, f"roofline floor, {floor:.3g}×")
    _curve(frame, steps, end)
    for step in steps:
        _draw(frame, step, many=len(timed) > MANY)
    fates = [s.verdict if s.status == "ok" else s.status for s in steps]
    return frame.figure(_title(document, steps), _caption(document, figures, floor), legend(fates))


def _frame(document: SearchResult, figures: RunFigures, timed: Sequence[Step]) -> tuple[Frame, float | None]:
    values = [v for s in timed if s.speedup for v in (s.speedup.low, s.speedup.high)] + [1.0]
    floor = figures.roofline.floor_speedup if figures.roofline else None
    drawn = floor if floor is not None and floor <= FAR * max(values) else None
    y = log_axis("speed-up over the reference", [*values, *([drawn] if drawn else [])], "×")
    count = len(figures.steps)
    x = count_axis("measurements made", count)
    frame = Frame(x, y, width=760, height=380, top=42)
    seconds = figures.steps[-1].device_s
    if seconds > 0:
        what = "GPU seconds" if document.device.kind == "cuda" else "device seconds"
        recorded = " of the recorded measurements" if document.source == "replay" else ""
        frame.above(f"{what}{recorded}", _seconds(x, figures.steps))
    return frame, drawn


def _seconds(x: Axis, steps: Sequence[Step]) -> list[tuple[float, str]]:
    return [(value, short(steps[round(value) - 1].device_s)) for value, _ in x.ticks if round(value) <= len(steps)]


def _curve(frame: Frame, steps: Sequence[Step], end: float) -> None:
    """Draw the best so far as steps, with its interval as a band."""
    corners = [(s.number, s.best) for s in steps if s.best is not None]
    path: list[tuple[float, float]] = []
    upper: list[tuple[float, float]] = []
    lower: list[tuple[float, float]] = []
    for place, (at, best) in enumerate(corners):
        until = corners[place + 1][0] if place + 1 < len(corners) else end
        path += [(at, best.ratio), (until, best.ratio)]
        upper += [(at, best.high), (until, best.high)]
        lower += [(at, best.low), (until, best.low)]
    if path:
        frame.area([*upper, *reversed(lower)], "band")
        frame.path(path, "step")


def _draw(frame: Frame, step: Step, *, many: bool) -> None:
    fate = step.verdict if step.status == "ok" else step.status
    kind, told = kind_of(fate), _told(step, fate)
    if step.speedup is None or step.status != "ok":
        frame.cross(step.number, frame.axes[1].low, kind, told)
        return
    if step.leads or step.purpose == "confirm" or not many:
        frame.line((step.number, step.speedup.low), (step.number, step.speedup.high), kind)
    if step.purpose == "confirm":
        frame.diamond(step.number, step.speedup.ratio, kind, told)
        return
    if step.leads:
        frame.dot(step.number, step.speedup.ratio, "best", "", 6.5, hollow=True)
    frame.dot(step.number, step.speedup.ratio, kind, told, hollow=step.audit)


def _told(step: Step, fate: str) -> str:
    what = "confirmation of" if step.purpose == "confirm" else "audit of" if step.audit else ""
    spent = f"after {short(step.device_s)} s of device"
    if step.tokens:
        spent += f", {step.tokens:,} tokens"
    if step.dollars:
        spent += f", ${step.dollars:.3f}"
    found = f"{step.speedup} " if step.speedup else ""
    lead = "; best so far" if step.leads else ""
    return f"{step.number}: {what} {step.kernel.short} {found}{meaning(fate)}{lead}, {spent}".replace(":  ", ": ")


def _title(document: SearchResult, steps: Sequence[Step]) -> str:
    last = next((s for s in reversed(steps) if s.leads), None)
    if last is None or last.best is None:
        return "Nothing was correct and to be believed so far"
    cap = document.budget.limit.measurements
    made = f"{len(steps)} made of a budget of {cap}" if cap else f"{len(steps)} made"
    return f"Best so far: {last.best.ratio:.3g}×, reached with measurement {last.number}; {made}"


def _caption(document: SearchResult, figures: RunFigures, floor: float | None) -> str:
    said = [
        "Dots are candidates with their 95 % intervals, ringed where they became the best so far; the line is the best "
        "so far with its interval; crosses at the bottom failed"
    ]
    if any(s.audit for s in figures.steps):
        said.append("hollow dots are audits")
    if any(s.purpose == "confirm" for s in figures.steps):
        said.append("the diamond is the winner measured once more")
    known = figures.roofline.floor_speedup if figures.roofline else None
    if floor is not None:
        said.append("at the roofline floor no data-sheet rate allows more")
    elif known is not None:
        said.append(f"the roofline floor, {known:.3g}×, lies far above")
    else:
        said.append("the device's peak rates are not known, so there is no roofline floor")
    if document.source == "replay":
        said.append("all of it looked up in a recorded pool")
    return "; ".join(said) + "."
