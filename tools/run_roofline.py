"""Roofline of a run: its kernels' bytes and operations a second against the device's peak rates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median

from pydantic import Field

from forewarp.archive.rows import CandidateRow
from forewarp.core.values import Measurement, Signature, Target
from forewarp.gpu_runner.roofline import bound, floor_s
from forewarp.tools.parts import Part

MOST_POINTS = 400


class Shape(Part):
    """One shape of the task: the bytes and operations that it needs at least, and the reference's time."""

    workload: str
    bytes_moved: int = Field(description="Bytes that have to be read and written at least.")
    flops: float | None = Field(description="Counted operations; null where nothing in the reference is counted.")
    floor_us: float | None = Field(description="Least microseconds by the roofline; null where rates are unknown.")
    bound: str | None = Field(description="memory or arithmetic.")
    reference_us: float = Field(description="Median over the run's measurements of the reference's median time.")


class RoofPoint(Part):
    """One measured candidate on one shape."""

    kernel: str = Field(description="First digits of its identity.")
    workload: str
    micros: float
    winner: bool


class Roofline(Part):
    """Peak rates of the device as its data sheet gives them, and the times that were measured against them.

    `floor_speedup` is the speed-up at which every shape would take no longer than its floor: geometric mean over the
    shapes of reference time / floor; null where a floor or the reference's time is not known.
    """

    source: str = Field(description="Where the peak rates are from.")
    memory_bandwidth: float | None = Field(description="Bytes a second.")
    fp32_flops: float | None
    tensor_flops: float | None
    shapes: list[Shape]
    points: list[RoofPoint] = Field(description="Trusted measurements only; the fastest where there are many.")
    floor_speedup: float | None


def roofline(
    target: Target, signatures: Sequence[Signature], rows: Sequence[CandidateRow], winner: str
) -> Roofline | None:
    """Return the roofline of a run; None where nothing was timed or the task's shapes are not on record.

    `winner` is the identity of the winning kernel, "" where there is none.
    """
    timed = [(r.candidate.short, r.candidate.sha256 == winner, r.measurement) for r in rows]
    trusted = [(short, won, m) for short, won, m in timed if m is not None and m.trusted and m.workloads]
    by_name = {s.workload: s for s in signatures}
    reference = _reference_us([m for _, _, m in trusted])
    shapes = [_shape(by_name[name], target, us) for name, us in reference.items() if name in by_name]
    if not shapes:
        return None
    fastest = sorted(trusted, key=lambda t: (not t[1], -(t[2].speedup or 0.0)))
    points = [
        RoofPoint(kernel=short, workload=w.workload, micros=w.candidate_median_s * 1e6, winner=won)
        for short, won, m in fastest
        for w in m.workloads
        if w.workload in by_name and w.candidate_median_s > 0
    ]
    return Roofline(
        source=target.source,
        memory_bandwidth=target.memory_bandwidth,
        fp32_flops=target.fp32_flops,
        tensor_flops=target.tensor_flops,
        shapes=shapes,
        points=points[:MOST_POINTS],
        floor_speedup=_floor_speedup(shapes),
    )


def _reference_us(measured: Sequence[Measurement]) -> Mapping[str, float]:
    """Return the reference's time by workload, in the order of the workloads."""
    times: dict[str, list[float]] = {}
    for m in measured:
        for w in m.workloads:
            if w.anchor_median_s > 0:
                times.setdefault(w.workload, []).append(w.anchor_median_s * 1e6)
    return {name: median(found) for name, found in times.items()}


def _shape(signature: Signature, target: Target, reference_us: float) -> Shape:
    return Shape(
        workload=signature.workload,
        bytes_moved=signature.bytes_moved,
        flops=signature.flops,
        floor_us=floor_s(signature, target) * 1e6 or None,
        bound=bound(signature, target),
        reference_us=reference_us,
    )


def _floor_speedup(shapes: Sequence[Shape]) -> float | None:
    ratios = [s.reference_us / s.floor_us for s in shapes if s.floor_us]
    if len(ratios) < len(shapes):
        return None
    return math.exp(sum(map(math.log, ratios)) / len(ratios))
