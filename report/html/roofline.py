"""A run's kernels against the device's peak rates, which are data-sheet values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean, median

from forewarp.core.roofline import bound, floor_s
from forewarp.core.values import Signature, Target
from forewarp.report.html.blocks import PageBlock, TableCell, number, table
from forewarp.report.html.chart import ChartFigure, PlotArea, log_axis, rate, short
from forewarp.tools.run_report import RunRecord

MOST_POINTS = 400


@dataclass(frozen=True, slots=True)
class RoofPoint:
    """One measured candidate on one shape."""

    kernel: str
    micros: float
    winner: bool


@dataclass(frozen=True, slots=True)
class RooflineShape:
    """One shape of the task: its work, the reference's median time over the run, and the candidates timed on it.

    `floor_us` is the least time by the device's roofline, None where its rates are not known; `bound` what decides it.
    """

    work: Signature
    floor_us: float | None
    bound: str | None
    reference_us: float
    points: Sequence[RoofPoint]

    @property
    def winner_us(self) -> float | None:
        """Time of the winner, if it was timed on this shape."""
        return next((p.micros for p in self.points if p.winner), None)

    @property
    def roof_share(self) -> float | None:
        return self.floor_us / self.winner_us if self.floor_us and self.winner_us else None

    def flops_per_s(self, micros: float) -> float:
        """Return the counted operations a second of a kernel that takes so long."""
        return (self.work.flops or 0.0) / (micros * 1e-6)


@dataclass(frozen=True, slots=True)
class Roofline:
    """Trusted measurements of a run by shape, on a device whose rates are as its data sheet gives them."""

    target: Target
    shapes: Sequence[RooflineShape]

    @staticmethod
    def of(record: RunRecord, winner: str) -> Roofline | None:
        """Return the roofline of a run whose winner has this identity; None where nothing was timed."""
        measured = [(r.candidate, r.measurement) for r in record.candidates if r.measurement and r.measurement.trusted]
        measured.sort(key=lambda pair: (pair[0].sha256 != winner, -(pair[1].speedup or 0.0)))
        timed = [(c, w) for c, m in measured for w in m.workloads if w.candidate_median_s > 0][:MOST_POINTS]
        shapes, target = list[RooflineShape](), record.run.target
        for work in record.signatures:
            reference = [w.anchor_median_s for _, m in measured for w in m.workloads if w.workload == work.workload]
            own = [(c, w) for c, w in timed if w.workload == work.workload]
            points = [RoofPoint(c.short, w.candidate_median_s * 1e6, c.sha256 == winner) for c, w in own]
            if known := [s for s in reference if s > 0]:
                floor_us = floor_s(work, target) * 1e6 or None
                shapes.append(RooflineShape(work, floor_us, bound(work, target), median(known) * 1e6, points))
        return Roofline(target, shapes) if shapes else None

    @property
    def floor_speedup(self) -> float | None:
        """Speed-up at which every shape takes no longer than its floor, geometric mean; None if a floor is unknown."""
        ratios = [s.reference_us / s.floor_us for s in self.shapes if s.floor_us]
        return geometric_mean(ratios) if len(ratios) == len(self.shapes) else None

    @property
    def roofs(self) -> list[tuple[float, str]]:
        rates = ((self.target.fp32_flops, "fp32"), (self.target.tensor_flops, "bf16 tensor"))
        return [(r, what) for r, what in rates if r]

    def lead(self) -> str:
        """Return a sentence on the device's peak rates and their source."""
        if self.target.memory_bandwidth is None:
            return "The peak rates of this device are not known; what was achieved is shown without them."
        rates = [f"{rate(self.target.memory_bandwidth, 'B/s')} of memory"]
        rates += [f"{rate(r, 'FLOP/s')} {what}" for r, what in self.roofs]
        return (
            f"Peak rates are data-sheet values, not measured: {', '.join(rates)} ({self.target.source}). Bytes are "
            "those that have to be moved at least, so a kernel that moves more gets closer to the peak than is shown."
        )

    def blocks(self) -> list[PageBlock]:
        """Return the roofline where operations are counted, and the numbers of each shape."""
        numbers = table(
            self.shapes,
            {
                "shape": lambda s: s.work.workload,
                "MB at least": lambda s: s.work.bytes_moved / 1e6,
                "operations": lambda s: TableCell(short(s.work.flops) if s.work.flops else "", "n"),
                "floor µs": lambda s: s.floor_us,
                "bound": lambda s: s.bound or "",
                "reference µs": lambda s: s.reference_us,
                "winner µs": lambda s: s.winner_us,
                "winner's share of the roof": lambda s: number(s.roof_share, ".0%"),
            },
        )
        return [self._roofs(), numbers]

    def _roofs(self) -> ChartFigure | None:
        """Return performance against arithmetic intensity; None where operations or rates are not known."""
        bandwidth = self.target.memory_bandwidth
        shapes = [s for s in self.shapes if s.work.flops and s.points]
        if not shapes or bandwidth is None:
            return None
        intensity = {s.work.workload: (s.work.flops or 0.0) / s.work.bytes_moved for s in shapes}
        ridges = [r / bandwidth for r, _ in self.roofs]
        ends = [min(*intensity.values(), *ridges, math.inf) / 2, max(*intensity.values(), *ridges, 0.0) * 2]
        x = log_axis("arithmetic intensity (FLOP per byte that has to be moved)", ends)
        speeds = [s.flops_per_s(us) for s in shapes for us in (s.reference_us, *(p.micros for p in s.points))]
        y = log_axis("FLOP/s", [*speeds, *(r for r, _ in self.roofs), x.low * bandwidth])
        frame = PlotArea(x, y, 640, 400)
        top = max((r for r, _ in self.roofs), default=x.high * bandwidth)
        frame.line((x.low, x.low * bandwidth), (top / bandwidth, top), "ink")
        frame.text(x.low * 1.7, x.low * bandwidth * 1.1, f"{rate(bandwidth, 'B/s')}, data sheet")
        for peak, what in self.roofs:
            frame.line((peak / bandwidth, peak), (x.high, peak), "ink")
            frame.text(x.high, peak, f"{what}, {rate(peak, 'FLOP/s')}, data sheet", "end")
        for s in shapes:
            speed = s.flops_per_s(s.reference_us)
            text = f"reference on {s.work.workload}: {rate(speed, 'FLOP/s')}"
            frame.dot(intensity[s.work.workload], speed, "ink", text, 5, hollow=True)
        for s, p in sorted(((of, p) for of in shapes for p in of.points), key=lambda pair: pair[1].winner):
            speed = s.flops_per_s(p.micros)
            text = f"{p.kernel} on {s.work.workload}: {rate(speed, 'FLOP/s')}, {p.micros:.3g} µs"
            kind, radius = ("best", 4.5) if p.winner else ("none", 3)
            frame.dot(intensity[s.work.workload], speed, kind, text, radius)
        shares = [s.roof_share for s in self.shapes if s.roof_share]
        reached = f"The winner reaches {geometric_mean(shares):.0%} of the roofline" if shares else ""
        return frame.figure(
            f"{reached}, as a geometric mean over the shapes" if reached else "What the kernels achieve",
            "Each shape is a column of dots: candidates in grey, the winner in blue, the reference as a ring; lines "
            "are the device's roofs.",
        )
