"""HTML charts of kernels against the device's peak rates."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from forewarp.report.html.frame import Frame, log_axis, rate, short
from forewarp.report.html.markup import Cell, number, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarp.tools.run_roofline import Roofline, RoofPoint, Shape

WIDTH, ROW, NAME = 640, 46, 150


def charts(found: Roofline | None) -> str:
    """Return the roofline where operations are counted, the bandwidth of each shape, and the numbers."""
    if found is None:
        return ""
    return _roofs(found) + _bandwidth(found) + _numbers(found)


def lead(found: Roofline | None) -> str:
    """Return a sentence on the device's peak rates and their source."""
    if found is None:
        return ""
    if found.memory_bandwidth is None:
        return "The peak rates of this device are not known; what was achieved is shown without them."
    rates = [f"{rate(found.memory_bandwidth, 'B/s')} of memory"]
    rates += [f"{rate(r, 'FLOP/s')} {what}" for r, what in _roof_rates(found)]
    return (
        f"Peak rates are data-sheet values, not measured: {', '.join(rates)} ({found.source}). Bytes are those that "
        "have to be moved at least, so a kernel that moves more gets closer to the peak than is shown."
    )


def _roof_rates(found: Roofline) -> list[tuple[float, str]]:
    rates = ((found.fp32_flops, "fp32"), (found.tensor_flops, "bf16 tensor"))
    return [(r, what) for r, what in rates if r]


def _roofs(found: Roofline) -> str:
    """Return performance against arithmetic intensity; "" where operations or rates are not known."""
    shapes = {s.workload: s for s in found.shapes if s.flops}
    points = [(p, shapes[p.workload]) for p in found.points if p.workload in shapes]
    if not points or found.memory_bandwidth is None:
        return ""
    bandwidth, roofs = found.memory_bandwidth, _roof_rates(found)
    xs = [_intensity(s) for _, s in points] + [r / bandwidth for r, _ in roofs]
    x = log_axis("arithmetic intensity (FLOP per byte that has to be moved)", [min(xs) / 2, max(xs) * 2])
    speeds = [_flops(s) / (p.micros * 1e-6) for p, s in points] + [
        _flops(s) / (s.reference_us * 1e-6) for _, s in points
    ]
    frame = Frame(x, log_axis("FLOP/s", [*speeds, *(r for r, _ in roofs), x.low * bandwidth]), 640, 400)
    top = max((r for r, _ in roofs), default=x.high * bandwidth)
    frame.line((x.low, x.low * bandwidth), (top / bandwidth, top), "ink")
    frame.said(x.low * 1.7, x.low * bandwidth * 1.1, f"{rate(bandwidth, 'B/s')}, data sheet")
    for peak, what in roofs:
        frame.line((peak / bandwidth, peak), (x.high, peak), "ink")
        frame.said(x.high, peak, f"{what}, {rate(peak, 'FLOP/s')}, data sheet", "end")
    for s in shapes.values():
        told = f"reference on {s.workload}: {rate(_flops(s) / (s.reference_us * 1e-6), 'FLOP/s')}"
        frame.dot(_intensity(s), _flops(s) / (s.reference_us * 1e-6), "ink", told, 5, hollow=True)
    for p, s in sorted(points, key=lambda pair: pair[0].winner):
        speed = _flops(s) / (p.micros * 1e-6)
        told = f"{p.kernel} on {p.workload}: {rate(speed, 'FLOP/s')}, {p.micros:.3g} µs"
        frame.dot(_intensity(s), speed, "best" if p.winner else "none", told, 4.5 if p.winner else 3)
    caption = (
        "Each shape is a column of dots: candidates in grey, the winner in blue, the reference as a ring; lines are "
        "the device's roofs."
    )
    return frame.figure(_title(found), caption)


def _flops(s: Shape) -> float:
    return s.flops or 0.0


def _intensity(s: Shape) -> float:
    return _flops(s) / s.bytes_moved


def _title(found: Roofline) -> str:
    shares = _shares(found)
    if not shares:
        return "What the kernels achieve"
    mean = math.exp(sum(map(math.log, shares)) / len(shares))
    return f"The winner reaches {mean:.0%} of the roofline, as a geometric mean over the shapes"


def _shares(found: Roofline) -> list[float]:
    floors = {s.workload: s.floor_us for s in found.shapes}
    return [f / p.micros for p in found.points if p.winner and (f := floors.get(p.workload))]


def _bandwidth(found: Roofline) -> str:
    """Return for each shape the reference's and the winner's bytes a second as bars, all candidates as ticks."""
    peak = found.memory_bandwidth
    rates = [_rate(s, s.reference_us) for s in found.shapes]
    by_name = {s.workload: s for s in found.shapes}
    rates += [_rate(by_name[p.workload], p.micros) for p in found.points]
    most = max([*rates, peak or 0.0])
    height = ROW * len(found.shapes) + 34
    parts = [_row(found, s, place, most) for place, s in enumerate(found.shapes)]
    if peak:
        x = NAME + (WIDTH - NAME - 10) * peak / most
        parts.append(f'<line class="axis" x1="{x:.1f}" y1="4" x2="{x:.1f}" y2="{height - 28}"/>')
        said = f"peak {rate(peak, 'B/s')}, data sheet"
        parts.append(f'<text class="soft" x="{x:.1f}" y="{height - 14}" text-anchor="end">{said}</text>')
    title = "Bytes a second on each shape" + ("" if peak else "; the device's peak is not known")
    caption = "Grey bar: the reference; blue bar: the winner; ticks: every candidate that was timed. Useful bytes only."
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    svg = f'<svg {size} role="img" aria-label="{escape(title)}">'
    return (
        f'<figure style="width:{WIDTH}px"><h3>{escape(title)}</h3><div class="wide">{svg}{"".join(parts)}</svg></div>'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _rate(shape: Shape, micros: float) -> float:
    return shape.bytes_moved / (micros * 1e-6)


def _row(found: Roofline, shape: Shape, place: int, most: float) -> str:
    y, scale = 6 + ROW * place, (WIDTH - NAME - 10) / most
    own = [p for p in found.points if p.workload == shape.workload]
    parts = [f'<text x="{NAME - 8}" y="{y + 19}" text-anchor="end">{escape(shape.workload[:24])}</text>']
    parts.append(_bar(y, scale, "even", "reference", shape, shape.reference_us))
    parts += [_bar(y + 14, scale, "best", "winner", shape, p.micros) for p in own if p.winner][:1]
    ticks = sorted({round(NAME + _rate(shape, p.micros) * scale, 1) for p in own})
    drawn = "".join(f"M{x:g} {y + 28}v6" for x in ticks)
    parts.append(f'<path class="mark none" d="{drawn}"/>')
    return "".join(parts)


def _bar(y: float, scale: float, kind: str, who: str, shape: Shape, micros: float) -> str:
    speed = _rate(shape, micros)
    said = f"{who}: {micros:.3g} µs, {rate(speed, 'B/s')}"
    place = f'x="{NAME}" y="{y}" width="{speed * scale:.1f}" height="12"'
    return f'<rect class="bar {kind}" {place}><title>{escape(said)}</title></rect>'


def _numbers(found: Roofline) -> str:
    head = (
        "shape",
        "MB at least",
        "operations",
        "floor µs",
        "bound",
        "reference µs",
        "winner µs",
        "winner's share of the roof",
    )
    rows: list[tuple[Cell | str, ...]] = []
    for s in found.shapes:
        micros = _winner_us(found.points, s)
        share = s.floor_us / micros if s.floor_us and micros else None
        rows.append(
            (
                *(s.workload, number(s.bytes_moved / 1e6), Cell(short(s.flops) if s.flops else "", "n")),
                *(number(s.floor_us), s.bound or "", number(s.reference_us), number(micros)),
                Cell("" if share is None else f"{share:.0%}", "n"),
            )
        )
    return table(head, rows)


def _winner_us(points: Sequence[RoofPoint], shape: Shape) -> float | None:
    return next((p.micros for p in points if p.winner and p.workload == shape.workload), None)
