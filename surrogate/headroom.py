"""Forecast of the best kernel for some operations before anybody writes one, from how far they are from the roofline.

`benchmarks/fit_headroom.py` fits what the best kernel of each task of the pool reached over its reference: log2 of the
speed-up against log2 of the reference's time over the roofline's.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from forewarp.core import serde
from forewarp.core.values import Operation, Target
from forewarp.surrogate import reference

SHIPPED = Path(__file__).with_name("headroom.json")
_NORMAL = statistics.NormalDist()
_POINTS = [_NORMAL.inv_cdf((i + 0.5) / 200) for i in range(200)]


@dataclass(frozen=True, slots=True)
class HeadroomFit:
    """Line through the best kernels: log2 S = `offset` + `slope` · log2 of the gap, `sd_log2` around it."""

    offset: float
    slope: float
    sd_log2: float
    tasks: int
    card: str
    origin: str


@dataclass(frozen=True, slots=True)
class Headroom:
    """Distribution of the best kernel's speed-up: log2 S is normal."""

    mean_log2: float
    sd_log2: float

    def quantile(self, p: float) -> float:
        """Return the speed-up that the best kernel stays below with a chance of `p`."""
        return 2.0 ** (self.mean_log2 + self.sd_log2 * _NORMAL.inv_cdf(p))

    def saving(self) -> float:
        """Return the expected share of the time that is saved; a kernel that is slower is not used."""
        speedups = (2.0 ** (self.mean_log2 + self.sd_log2 * z) for z in _POINTS)
        return statistics.fmean(max(0.0, 1.0 - 1.0 / s) for s in speedups)


@lru_cache(maxsize=1)
def shipped() -> HeadroomFit:
    return serde.from_data(HeadroomFit, json.loads(SHIPPED.read_text(encoding="utf-8")))


def roofline_s(moved: float, operations: Sequence[Operation], target: Target) -> float:
    """Return the least seconds to move and compute so much, of a launch on a GPU; zero where rates are not known."""
    if None in (target.memory_bandwidth, target.fp32_flops, target.tensor_flops):
        return 0.0
    computing = sum(o.flops * o.times / reference.rate_of(o, target)[1] for o in operations if o.flops)
    launch_s = reference.shipped().launch_s if target.kind == "cuda" else 0.0
    return max(launch_s, moved / (target.memory_bandwidth or math.inf), computing)


def forecast(measured_s: float, least_s: float, fit: HeadroomFit | None = None) -> Headroom:
    """Forecast the best kernel for operations that take `measured_s`, and `least_s` by the roofline."""
    fit = fit or shipped()
    gap = math.log2(max(measured_s / least_s, 1.0)) if least_s else 0.0
    # No kernel is faster than the roofline, as far as that is true.
    return Headroom(min(fit.offset + fit.slope * gap, gap), fit.sd_log2)
