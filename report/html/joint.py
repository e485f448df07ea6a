"""A search for several targets as one HTML page: who wins where, and what is the best compromise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from forewarp.report.html.blocks import CellValue, Page, Section, SourceLines, TableCell, TextList, became, table
from forewarp.report.html.chart import ChartFigure, PlotArea, count_axis, log_axis
from forewarp.tools.joint_report import differing
from forewarp.tools.wording import counted

if TYPE_CHECKING:
    from forewarp.tools.joint_report import AcrossTargets, JointResult

_COLOURS = ("best", "slower", "faster", "odd", "doubt", "even")
"""Classes of colour of the targets, in their order."""


def page(document: JointResult, pages: Mapping[str, str]) -> str:
    """Return the page; `pages` leads from a device's name to the page of its run."""
    best = document.compromise
    runs = [
        (f", run {r.run_id}, {r.status}: {r.summary}", r.device.name, pages.get(r.device.name, ""))
        for r in document.runs
    ]
    lead = (
        "Each speed-up is over the reference on the same device, with its 95 % interval; only such ratios are averaged."
        " A star marks the winner of a device. Foreseen is the median of the forecast for that device."
    )
    return Page(
        name=f"{document.group_id}: {document.task}",
        title=f"{document.task} on {counted(len(document.runs), 'target')}",
        replay=document.source == "replay",
        summary=document.summary,
        about=f"Search {document.group_id}, {document.status}. {document.reason}",
        sections=[
            Section("kernels", "Kernels over all targets", [table(*_kernels(document), sort=True)], lead),
            Section("chart", "Speed-ups", [_chart(document)]),
            Section("runs", "One run per target", [TextList(runs)]),
            Section(
                "compromise", "The best compromise", [best.kernel.short, SourceLines.of(best.source)] if best else []
            ),
        ],
    ).html()


def _kernels(document: JointResult) -> tuple[list[AcrossTargets], dict[str, Callable[[AcrossTargets], CellValue]]]:
    """Return the kernels and the columns of their table: two for each device."""
    differ = dict(zip((k.kernel.sha256 for k in document.kernels), differing(document.kernels), strict=True))
    columns: dict[str, Callable[[AcrossTargets], CellValue]] = {"kernel": lambda k: k.kernel.short}

    def result(k: AcrossTargets, place: int) -> TableCell:
        t = k.targets[place]
        cell = became(t.outcome) if t.speedup is None else TableCell(str(t.speedup), "n")
        return TableCell(f"{cell.text}{' *' if t.device in k.won else ''}", cell.kind)

    def foreseen(k: AcrossTargets, place: int) -> TableCell:
        forecast = k.targets[place].forecast
        return TableCell(f"{forecast.ratio:.3g}×" if forecast else "", "n")

    for place, run in enumerate(document.runs):
        columns[run.device.name] = lambda k, place=place: result(k, place)
        columns[f"{run.device.name}, foreseen"] = lambda k, place=place: foreseen(k, place)
    columns |= {
        "geometric mean": lambda k: k.mean,
        "least": lambda k: TableCell("" if k.worst is None else f"{k.worst:.3g}×", "n"),
        "tunables that differ": lambda k: TableCell(differ[k.kernel.sha256], "t"),
    }
    return document.kernels, columns


def _chart(document: JointResult) -> ChartFigure | None:
    """Return a chart with a column per kernel and a dot per target."""
    found = [
        (k.kernel.short, [(t.device, s) for t in k.targets if (s := t.speedup) is not None]) for k in document.kernels
    ]
    values = [v for _, on in found for _, s in on for v in (s.low, s.high)]
    if len(values) < 2:
        return None
    colours = {r.device.name: _COLOURS[i % len(_COLOURS)] for i, r in enumerate(document.runs)}
    most = max(2, len(found))
    y = log_axis("speed-up over the reference", [*values, 1.0], "×")
    frame = PlotArea(count_axis("kernel, the best compromise first", most), y)
    frame.line((0.5, 1.0), (most + 0.5, 1.0), "none", stroke_dasharray="4 3")
    for place, (kernel, on) in enumerate(found, 1):
        for nth, (device, speedup) in enumerate(on):
            x = place + 0.12 * (nth - (len(on) - 1) / 2)
            frame.line((x, speedup.low), (x, speedup.high), colours[device])
            frame.dot(x, speedup.ratio, colours[device], f"{kernel} on {device}: {speedup}")
    return frame.figure(
        "Speed-up of each kernel on each target",
        "Dots are measured speed-ups with their 95 % intervals, a colour per device. Above the dashed line is faster.",
        [(kind, device) for device, kind in colours.items()],
    )
