"""From a judge's answer to a measurement: statistics, the roofline floor, and what speaks against the time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any, cast

from forewarp.core.values import (
    DeviceKind,
    Measurement,
    Signature,
    Status,
    Target,
    Tier,
    TimingMode,
    Verdict,
    WorkloadTiming,
)
from forewarp.gpu_runner import statistics
from forewarp.gpu_runner.roofline import floor_s
from forewarp.gpu_runner.statistics import Samples

_SERIES = tuple(name for name in Samples.__dataclass_fields__ if name.endswith(("_s", "_hz")))


SESSION_SPREAD: Mapping[tuple[TimingMode, DeviceKind], tuple[float, float]] = {
    ("stream", "cuda"): (0.001, 0.0),
    ("graph", "cuda"): (0.001, 0.1e-6),
    ("chain", "cuda"): (0.001, 0.02e-6),
    ("burst", "cuda"): (0.005, 1e-6),
    ("call", "cuda"): (0.05, 15e-6),
    ("call", "cpu"): (0.03, 0.0),
    ("native", "cpu"): (0.005, 0.0),
}
"""How equal kernels differ from session to session, which no interval of one session shows.

By the way of timing: standard deviation of log-ratios, and seconds by which one arm may be off throughout a session.
Seen where kernels were measured against themselves: see "From session to session" in `docs/measuring.md`.
"""

DISTURBED = 0.05
"""Standard deviation of log-ratios on a CPU for each processor that others keep busy: they hold up one arm more."""


def timings_of(
    answer: Mapping[str, Any], target: Target, weights: Mapping[str, float] | None = None
) -> tuple[WorkloadTiming, ...]:
    """Summarise the samples of a judge's answer, one per workload; `weights` are by workload, 1 where left out."""
    # Timing that ended early had a sighting to end at, besides the looks that were planned.
    sighted = int(answer["stopped_early"])
    disturbed = DISTURBED * answer["conditions"].get("other_processors", 0.0) if target.kind == "cpu" else 0.0
    return tuple(
        statistics.timing(
            Samples(
                workload=t["workload"],
                error_ratio=t["error_ratio"],
                looks=t["looks"] + sighted,
                mode=t["mode"],
                session_sd=math.hypot(session_sd(target, t), disturbed),
                weight=(weights or {}).get(t["workload"], 1.0),
                **{name: tuple(t[name]) for name in _SERIES},
            )
        )
        for t in answer["timings"]
    )


def session_sd(target: Target, timed: Mapping[str, Any]) -> float:
    """Return the spread from session to session (log-ratio) of one workload's samples, by `SESSION_SPREAD`."""
    share, offset_s = SESSION_SPREAD.get((timed["mode"], target.kind), (0.0, 0.0))
    return math.hypot(share, offset_s / median(timed["candidate_s"]))


def measurement_of(
    answer: Mapping[str, Any],
    signatures: Sequence[Signature],
    target: Target,
    *,
    anchor: str,
    phases: Mapping[str, float],
    device_s: float,
    log: str,
    environment: Mapping[str, str],
    weights: Mapping[str, float] | None = None,
) -> Measurement:
    """Judge a candidate that the judge found correct; `weights` are by workload, 1 where left out."""
    timings = timings_of(answer, target, weights)
    floors = [_below_floor(t, s, target) for t, s in zip(timings, signatures, strict=True)]
    timings = tuple(replace(t, verdict="impossible") if f else t for t, f in zip(timings, floors, strict=True))
    flags = [*(f for f in floors if f), *answer["flags"]]
    speedup, low, high = statistics.geometric_mean(timings)
    verdict: Verdict = statistics.overall(timings)
    if any(floors):
        verdict = "impossible"
    elif answer["flags"]:
        verdict = "suspicious"
    return Measurement(
        status="ok",
        verdict=verdict,
        device=target.name,
        tier=cast("Tier", answer["tier"]),
        anchor=anchor,
        speedup=speedup,
        low=low,
        high=high,
        workloads=timings,
        phases=phases,
        device_s=device_s,
        log="\n".join((*flags, log)).strip(),
        protections=tuple(answer["protections"]),
        environment=environment,
        checks=tuple(answer["checks"]),
        flags=tuple(flags),
        conditions=answer["conditions"],
        stopped_early=answer["stopped_early"],
    )


def failure(
    status: str,
    log: str,
    target: Target,
    *,
    anchor: str,
    phases: Mapping[str, float],
    device_s: float = 0.0,
    answer: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Measurement:
    """Return the measurement of a candidate that did not come to be timed."""
    told = answer or {}
    return Measurement(
        status=cast("Status", status),
        verdict="incorrect" if status == "incorrect" else "failed",
        device=target.name,
        tier=cast("Tier", told.get("tier", "T1")),
        anchor=anchor,
        phases=phases,
        device_s=device_s,
        log=log,
        protections=tuple(told.get("protections", ())),
        environment=environment or {},
        checks=tuple(told.get("checks", ())),
    )


def _below_floor(timed: WorkloadTiming, signature: Signature, target: Target) -> str:
    """Say that a workload took less time than it can; "" where it did not, or where the anchor does so too.

    A reference that beats the floor shows that the floor does not hold: not every byte of an input need be read.
    """
    floor = floor_s(signature, target)
    if timed.candidate_median_s >= floor or timed.anchor_median_s < floor:
        return ""
    return (
        f"{timed.workload}: {timed.candidate_median_s * 1e6:.1f} µs is below the floor of {floor * 1e6:.1f} µs for"
        f" {signature.bytes_moved} bytes and {signature.needed_flops:.3g} operations; the result cannot be right"
    )
