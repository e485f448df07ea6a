"""Results of forecasting one kernel or several."""

from __future__ import annotations

from pydantic import Field

from forewarp.core.values import Status
from forewarp.tools.parts import SCHEMA_VERSION, Device, Facts, Interval, KernelId, Part, Prediction, Price
from forewarp.tools.recommendation import Advice
from forewarp.tools.run_report import TierLine


class RankedKernel(Part):
    """One of several kernels: its forecast and its place among them, or why there is none."""

    position: int = Field(description="Its place in the request, from 1.")
    path: str = Field(description="File of the kernel; empty where it was given as text.")
    kernel: KernelId | None = None
    status: Status | None = Field(default=None, description="That of compiling it; null where it was not compiled.")
    problem: str = Field(default="", description="Why it is not ranked.")
    recommendation: Advice | None = None
    reason: str = ""
    forecast: Prediction | None = None
    p_better: float | None = None
    already_measured: Interval | None = None
    value: float | None = Field(
        default=None, description="What the order is by: p_valid times the geometric mean of the speed-up."
    )
    p_best: float | None = Field(default=None, description="Probability of being correct and the fastest of these.")
    p_faster_than: list[float] = Field(
        default_factory=list[float],
        description="Probability of being faster than each ranked kernel, in the order of the ranking, if both are "
        "correct; 0.5 against itself.",
    )
    cost: Price = Price()


class ForecastResult(Part):
    """Forecast of a kernel before it runs, and whether to measure it; of several, the most promising one's."""

    summary: str
    schema_version: int = SCHEMA_VERSION
    status: Status
    recommendation: Advice
    reason: str
    task: str
    device: Device
    kernel: KernelId
    anchor: str = Field(default="reference", description="reference, or the sha256 of the kernel forecast against.")
    forecast: Prediction | None = Field(description="Null where the kernel does not compile.")
    p_better: float | None = Field(
        default=None, description="Probability of being correct and faster than the best so far, or than the anchor."
    )
    best_so_far: Interval | None = Field(
        default=None, description="Best measured speed-up of this task on this device, over the reference."
    )
    already_measured: Interval | None = Field(
        default=None, description="Measured speed-up of this very program over the reference, if any."
    )
    trials: int = Field(description="Measurements of this task on this device that the forecast rests on.")
    evidence: Facts = Facts()
    evidence_used: list[str] = Field(default_factory=list[str], description="What the forecast rests on, in words.")
    log: str = ""
    cost: Price = Field(default=Price(), description="Of the whole call.")
    tiers: list[TierLine] = Field(default_factory=list[TierLine], description="Who was asked about how many kernels.")
    ranking: list[RankedKernel] = Field(
        default_factory=list[RankedKernel], description="Where several were asked about: all, the best first."
    )
