"""Measure one kernel: whether it is correct, and how fast it is against the reference."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

from pydantic import Field

from forewarp.core.values import Build, Candidate, Measurement, Status, Target, Tier, Verdict, WorkloadTiming
from forewarp.tools import session as sessions
from forewarp.tools.parts import (
    SCHEMA_VERSION,
    Device,
    Facts,
    Interval,
    Kernel,
    KernelId,
    Part,
    Place,
    Price,
    speedup_of,
    trim,
)
from forewarp.tools.session import Executors

Stage = Literal["starting the device", "compiling", "measuring"]


class MeasureRequest(Part):
    """What to measure, and where."""

    task: str = Field(description="Bundled task, task folder or KernelBench file.")
    kernel: Kernel
    place: Place = Place()


class Micros(Part):
    """Median time of one call in microseconds, with the 95 % interval of the median where samples are kept."""

    median: float
    low: float | None = None
    high: float | None = None


class WorkloadResult(Part):
    """One shape of the task: candidate against reference."""

    name: str
    speedup: Interval
    candidate_us: Micros
    reference_us: Micros
    error: float = Field(description="Largest error as a share of the tolerance; above 1 is incorrect.")
    blocks: int = Field(description="Interleaved blocks of samples that the interval rests on.")


class MeasureResult(Part):
    """What came of measuring a kernel. A kernel that fails is an answer with a status, not an error."""

    summary: str
    schema_version: int = SCHEMA_VERSION
    status: Status
    verdict: Verdict
    source: Literal["measured", "replay"]
    speedup: Interval | None
    task: str
    device: Device
    kernel: KernelId
    anchor: str
    workloads: list[WorkloadResult]
    tier: Tier = Field(description="T0 device-only code, T1 sandboxed callable, T2 the user's own script.")
    protections: list[str]
    phases: dict[str, float] = Field(description="Seconds by phase.")
    evidence: Facts = Facts()
    log: str = ""
    measurement_id: int | None = Field(
        default=None, description="Its number in the archive; null where it did not compile."
    )
    cost: Price = Price()


def measure_kernel(
    request: MeasureRequest,
    *,
    stage: Callable[[Stage], None] = lambda _: None,
    executors: Executors | None = None,
) -> MeasureResult:
    """Compile, check and time the kernel; announced in the archive before it starts, recorded there after.

    `stage` is called when the next stage begins; `executors` keeps the device warm between calls.
    """
    candidate = sessions.choose_candidate(request.kernel)
    stage("starting the device")
    with sessions.open_session(request.place, request.task, executors) as opened:
        task, executor, archive = opened.task, opened.executor, opened.archive
        sessions.check_language(candidate, executor)
        stage("compiling")
        build = executor.compile(task, candidate)
        if build.status != "ok":
            # Not a measurement: the device was not needed, and the gate would have stopped it.
            return result_of(task.name, executor.target, candidate, build, _not_compiled(executor.target, build))
        stage("measuring")
        number = archive.begin_measurement(task, executor.target, candidate)
        measurement = executor.measure(task, candidate, build)
        archive.finish_measurement(number, measurement, build)
        return result_of(task.name, executor.target, candidate, build, measurement, number)


def result_of(
    task: str, target: Target, candidate: Candidate, build: Build, m: Measurement, number: int | None = None
) -> MeasureResult:
    """Show a measurement."""
    return MeasureResult(
        summary=_summary(task, target, m),
        status=m.status,
        verdict=m.verdict,
        source=m.source,
        speedup=speedup_of(m),
        task=task,
        device=Device.of(target),
        kernel=KernelId.of(candidate),
        anchor=m.anchor,
        workloads=[workload_result(w) for w in m.workloads],
        tier=m.tier,
        protections=list(m.protections),
        phases=dict(m.phases),
        evidence=Facts.of(build.evidence),
        log=trim(m.log or build.log),
        measurement_id=number,
        cost=Price(seconds=m.phases.get("total", build.seconds), device_s=m.device_s),
    )


def median_interval(samples: Sequence[float]) -> tuple[float, float] | None:
    """Return the order statistics that hold the median with at least 95 %; None for fewer than six samples.

    The k-th smallest and k-th largest of n hold it with 1 − 2 P(Binomial(n, ½) < k), whatever the distribution.
    """
    n = len(samples)
    if n < 6:
        return None
    k, below = 0, 0.0
    while below + math.comb(n, k) / 2**n <= 0.025:
        below += math.comb(n, k) / 2**n
        k += 1
    ordered = sorted(samples)
    return ordered[k - 1], ordered[n - k]


def _not_compiled(target: Target, build: Build) -> Measurement:
    phases = {"compile": build.seconds, "total": build.seconds}
    return Measurement(build.status, "failed", target.name, "T0", phases=phases, log=build.log)


def _micros(median_s: float, samples: Sequence[float]) -> Micros:
    found = median_interval(samples)
    low, high = found if found else (None, None)
    return Micros(median=median_s * 1e6, low=low and low * 1e6, high=high and high * 1e6)


def workload_result(timing: WorkloadTiming) -> WorkloadResult:
    """Show one workload."""
    return WorkloadResult(
        name=timing.workload,
        speedup=Interval(ratio=timing.speedup, low=timing.low, high=timing.high),
        candidate_us=_micros(timing.candidate_median_s, timing.candidate_s),
        reference_us=_micros(timing.anchor_median_s, timing.anchor_s),
        error=timing.error_ratio,
        blocks=len(timing.log_ratios),
    )


def _summary(task: str, target: Target, m: Measurement) -> str:
    found = speedup_of(m)
    where = f"on {target.name}{' (replay of a recorded measurement)' if m.source == 'replay' else ''}"
    if m.status == "ok" and found is not None:
        said = {
            "faster": "Faster: keep it",
            "slower": "Slower than the reference: drop it",
            "tie": "As fast as the reference, within 1 %",
            "inconclusive": "Inconclusive, faster and slower are both possible: measure again on a quieter device",
            "suspicious": "Suspicious: do not trust this number, read the log",
        }.get(m.verdict, m.verdict)
        return f"{said}. {found} (95 % interval) over the reference of {task} {where}."
    first = next((line for line in m.log.splitlines() if line.strip()), "")
    said = {
        "compile_error": "It does not compile",
        "incorrect": "Wrong result: not timed",
        "runtime_error": "It failed while running",
        "timeout": "It took too long and was stopped",
        "crashed": "It crashed",
        "out_of_memory": "It ran out of memory",
    }.get(m.status, m.status)
    return f"{said}, on {task} {where}. {first[:300]}".strip()
