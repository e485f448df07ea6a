"""A search for several targets as one HTML page: who wins where, and what is the best compromise."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

from forewarp.report.html.frame import Frame, count_axis, log_axis
from forewarp.report.html.headline import REPLAY
from forewarp.report.html.markup import SCRIPT, STYLE, Cell, became, section, speedup, table
from forewarp.tools.joint_report import differing
from forewarp.tools.wording import counted

if TYPE_CHECKING:
    from forewarp.tools.joint_report import AcrossTargets, JointResult

_COLOURS = ("best", "slower", "faster", "odd", "doubt", "even")
"""Classes of colour of the targets, in their order."""


def page(document: JointResult, pages: Mapping[str, str]) -> str:
    """Return the page; `pages` leads from a device's name to the page of its run."""
    label = f'<p class="label">{REPLAY}</p>' if document.source == "replay" else ""
    said = f"Search {document.group_id}, {document.status}. {document.reason}"
    parts = (
        section("kernels", "Kernels over all targets", _kernels(document), lead=_LEAD),
        section("chart", "Speed-ups", _chart(document)),
        section("runs", "One run per target", _runs(document, pages)),
        section("compromise", "The best compromise", _source(document.compromise)),
    )
    return f"""<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1"><title>forewarp {escape(document.group_id)}: \
{escape(document.task)}</title>
<style>{STYLE}</style>
<h1>{escape(document.task)} on {counted(len(document.runs), "target")}</h1>
{label}<p><b>{escape(document.summary)}</b></p>
<p class="soft">{escape(said)}</p>
{"".join(parts)}<script>{SCRIPT}</script></html>
"""


_LEAD = (
    "Each speed-up is over the reference on the same device, with its 95 % interval; only such ratios are averaged. "
    "A star marks the winner of a device. Foreseen is the median of the forecast for that device."
)


def _kernels(document: JointResult) -> str:
    if not document.kernels:
        return ""
    devices = [r.device.name for r in document.runs]
    head = ["kernel", *(h for d in devices for h in (d, "foreseen"))]
    rows: list[list[Cell | str]] = []
    for k, differ in zip(document.kernels, differing(document.kernels), strict=True):
        row: list[Cell | str] = [k.kernel.short]
        for t in k.targets:
            cell = became(t.outcome) if t.speedup is None else speedup(t.speedup)
            star = " *" if t.device in k.won else ""
            foreseen = Cell(f"{t.forecast.ratio:.3g}×" if t.forecast else "", "n")
            row += [Cell(cell.text + star, cell.kind), foreseen]
        least = Cell("" if k.worst is None else f"{k.worst:.3g}×", "n")
        rows.append([*row, speedup(k.mean), least, Cell(differ, "t")])
    return table([*head, "geometric mean", "least", "tunables that differ"], rows, sort=True)


def _chart(document: JointResult) -> str:
    """Return a chart with a column per kernel and a dot per target."""
    found = [(k, [t for t in k.targets if t.speedup is not None]) for k in document.kernels]
    values = [v for _, on in found for t in on if t.speedup for v in (t.speedup.low, t.speedup.high)]
    if len(values) < 2:
        return ""
    colours = {r.device.name: _COLOURS[i % len(_COLOURS)] for i, r in enumerate(document.runs)}
    frame = Frame(
        count_axis("kernel, the best compromise first", max(2, len(found))),
        log_axis("speed-up over the reference", [*values, 1.0], "×"),
    )
    frame.line((0.5, 1.0), (max(2, len(found)) + 0.5, 1.0), "none", 'stroke-dasharray="4 3"')
    for place, (k, on) in enumerate(found, 1):
        for nth, t in enumerate(on):
            if t.speedup is None:
                continue
            x = place + 0.12 * (nth - (len(on) - 1) / 2)
            frame.line((x, t.speedup.low), (x, t.speedup.high), colours[t.device])
            frame.dot(x, t.speedup.ratio, colours[t.device], f"{k.kernel.short} on {t.device}: {t.speedup}")
    keys = "".join(f'<span class="key {kind}">● {escape(device)}</span>' for device, kind in colours.items())
    caption = (
        "Dots are measured speed-ups with their 95 % intervals, a colour per device. Above the dashed line is faster."
    )
    return frame.figure("Speed-up of each kernel on each target", caption, f"<p>{keys}</p>")


def _runs(document: JointResult, pages: Mapping[str, str]) -> str:
    rows = "".join(
        f"<li>{_link(r.device.name, pages)}, run {escape(r.run_id)}, {r.status}: {escape(r.summary)}</li>"
        for r in document.runs
    )
    return f"<ul>{rows}</ul>"


def _link(device: str, pages: Mapping[str, str]) -> str:
    name = escape(device)
    return f'<a href="{escape(pages[device])}">{name}</a>' if device in pages else name


def _source(found: AcrossTargets | None) -> str:
    return "" if found is None else f"<p>{escape(found.kernel.short)}</p><pre>{escape(found.source)}</pre>"
