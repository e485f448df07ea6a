"""Results of measurements for display: per shape and as a whole, without raw samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from pydantic import Field

from forewarp.core.untrusted_text import clip, first_error
from forewarp.core.values import (
    Build,
    Candidate,
    Comparison,
    Measurement,
    Status,
    Target,
    Tier,
    TimingMode,
    Verdict,
    WorkloadTiming,
)
from forewarp.tools.parts import (
    SCHEMA_VERSION,
    Device,
    Facts,
    Interval,
    KernelId,
    Part,
    Price,
    Source,
    rounded,
    speedup_of,
)

MAX_NOISE_PERCENT = 50.0
"""Noise of equal kernels above which a time is not trusted, whatever its own interval says."""


class Micros(Part):
    """Median time of one call in microseconds, with the 95 % interval of the median where samples are kept."""

    median: float
    low: float | None = None
    high: float | None = None


class WorkloadResult(Part):
    """One shape of the task: candidate against reference (or the kernel that it was measured against)."""

    name: str
    verdict: Verdict
    speedup: Interval
    candidate_us: Micros
    reference_us: Micros
    error: float = Field(description="Largest error as a share of the tolerance; above 1 is incorrect.")
    blocks: int = Field(description="Interleaved blocks of samples that the interval rests on.")
    blocks_left_out: int = Field(description="Blocks not used, because the clock was much slower than typical.")
    stopped_early: bool = Field(description="Fewer blocks were needed than planned.")
    mode: TimingMode = Field(description="How calls were made: call, native, stream, graph, chain (a graph) or burst.")
    control: Interval | None = Field(description="The reference against itself: what equal kernels come out as.")
    noise_percent: float | None = Field(description="How far from 1 the control's interval reaches, in percent.")
    warm: Interval | None = Field(description="Speed-up with the L2 cache left as it is.")
    launched: Interval | None = Field(description="Speed-up with the host's launch included.")
    cycles: Interval | None = Field(description="Speed-up in SM clock cycles instead of seconds.")
    candidate_mhz: float | None = Field(description="Median SM clock before the candidate's samples.")
    reference_mhz: float | None = Field(description="Median SM clock before the reference's samples.")


class DeviceState(Part):
    """The device beside the measurement; null where it is not known.

    `slowed_by` is empty where nothing slowed the GPU's clock. `other_processors` is how many processors were busy with
    something else while a CPU was measured, of the `processors` that the kernels had: that slows one side and not the
    other, so intervals hold where it is near 0. `round_trip_us` is what asking a sandboxed process takes; it is taken
    off its times.
    """

    temperature_c: float | None = None
    temperature_before_c: float | None = None
    power_w: float | None = None
    sm_mhz: float | None = None
    memory_mhz: float | None = None
    slowed_by: list[str] | None = None
    other_processes: int | None = None
    processors: int | None = None
    other_processors: float | None = None
    round_trip_us: float | None = None


class MeasureResult(Part):
    """Result of measuring a kernel. A kernel that fails gives a result with a status, not an error."""

    summary: str
    schema_version: int = SCHEMA_VERSION
    status: Status
    verdict: Verdict
    trusted: bool = Field(
        description="Correct, its time is to be believed, and equal kernels came out at most 50 % apart."
    )
    source: Source
    speedup: Interval | None
    deciding: Interval | None = Field(
        default=None,
        description="The wider interval that the verdict goes by: faster, slower or a tie where all of it lies above "
        "1.01, below 0.99 or between. Null without samples.",
    )
    task: str
    device: Device
    kernel: KernelId
    anchor: str = Field(description='"reference", or the sha256 of the kernel that it was timed against.')
    workloads: list[WorkloadResult]
    tier: Tier = Field(description="T0 device code only, T1 sandboxed callable, T2 the user's own script.")
    lifting: str = Field(default="", description="What a module was lifted to, or why it was not; empty for others.")
    protections: list[str]
    checks: list[str] = Field(description="What the outputs had to pass.")
    flags: list[str] = Field(description="What speaks against the time.")
    device_state: DeviceState | None = Field(description="Null where the device has no such readings.")
    phases: dict[str, float] = Field(description="Seconds by phase.")
    evidence: Facts = Facts()
    log: str = ""
    measurement_id: int | None = Field(
        default=None, description="Its number in the archive; null where it did not compile."
    )
    cost: Price = Price()


def result_of(
    task: str, target: Target, candidate: Candidate, build: Build, m: Measurement, number: int | None = None
) -> MeasureResult:
    workloads = [workload_result(w) for w in m.workloads]
    loud, deciding = loud_words(noise_of(workloads)), _deciding(m)
    return MeasureResult.of(
        m,
        summary=_summary(task, target, m, deciding) + (f" Not to be trusted: {loud}." if loud else "") + _insisted(m),
        trusted=m.trusted and not loud,
        speedup=speedup_of(m),
        deciding=deciding,
        task=task,
        device=Device.of(target),
        kernel=KernelId.of(candidate),
        workloads=workloads,
        device_state=device_state(m),
        evidence=Facts.of(build.evidence),
        log=clip(m.log or build.log),
        measurement_id=number,
        cost=Price(seconds=m.phases.get("total", build.seconds), device_s=m.device_s + m.phases.get("lost", 0.0)),
    )


def _deciding(m: Measurement) -> Interval | None:
    from forewarp.gpu_runner.statistics import MIN_BLOCKS, deciding_interval

    if m.speedup is None or not m.workloads or min(len(t.candidate_s) for t in m.workloads) < 2 * MIN_BLOCKS:
        return None
    low, high, level = deciding_interval(m.workloads)
    return Interval(ratio=m.speedup, low=low, high=high, level=level)


def workload_result(timing: WorkloadTiming) -> WorkloadResult:
    """Convert the timing of one workload; its samples, if they were kept, become medians with intervals."""
    taken = len(timing.candidate_s) // 2
    return WorkloadResult.of(
        timing,
        name=timing.workload,
        speedup=timing,
        candidate_us=_micros(timing.candidate_median_s, timing.candidate_s),
        reference_us=_micros(timing.anchor_median_s, timing.anchor_s),
        error=timing.error_ratio,
        blocks=len(timing.log_ratios),
        blocks_left_out=max(0, taken - len(timing.log_ratios)),
        stopped_early=timing.looks > 1 and taken < _planned(timing.looks),
        noise_percent=_noise_percent(timing.control),
        candidate_mhz=_mhz(timing.candidate_hz),
        reference_mhz=_mhz(timing.anchor_hz),
    )


def device_state(m: Measurement) -> DeviceState | None:
    """Convert the readings of the device; None where there are none at all."""
    from forewarp.gpu_runner.worker.conditions import throttling

    c = m.conditions
    if not c:
        return None

    def scaled(name: str, factor: float) -> float | None:
        return None if c.get(name) is None else factor * c[name]

    return DeviceState(
        temperature_c=c.get("temperature_c"),
        temperature_before_c=c.get("temperature_c_before"),
        power_w=c.get("power_w"),
        sm_mhz=scaled("sm_hz", 1e-6),
        memory_mhz=scaled("memory_hz", 1e-6),
        slowed_by=throttling(c["throttle_bits"]) if c.get("throttle_bits") is not None else None,
        other_processes=int(c["other_processes"]) if c.get("other_processes") is not None else None,
        processors=int(c["processors"]) if c.get("processors") is not None else None,
        other_processors=c.get("other_processors"),
        round_trip_us=scaled("round_trip_s", 1e6),
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


def _micros(median_s: float, samples: Sequence[float]) -> Micros:
    found = median_interval(samples)
    low, high = found if found else (None, None)
    return Micros(median=median_s * 1e6, low=low and low * 1e6, high=high and high * 1e6)


def _noise_percent(control: Comparison | None) -> float | None:
    if control is None:
        return None
    return 100 * math.expm1(max(abs(math.log(control.low)), abs(math.log(control.high))))


def _planned(looks: int) -> int:
    """Return the number of blocks of samples at the last of `looks` planned looks at the data."""
    from forewarp.gpu_runner.statistics import LOOKS  # imports numpy, which few verbs need

    return LOOKS[min(looks, len(LOOKS)) - 1]


def _mhz(hertz: Sequence[float]) -> float | None:
    known = [value for value in hertz if value > 0]
    return median(known) / 1e6 if known else None


def noise_of(workloads: Sequence[WorkloadResult]) -> float | None:
    """Return the largest noise floor of some shapes, in percent."""
    return max((w.noise_percent for w in workloads if w.noise_percent is not None), default=None)


def loud_words(noise_percent: float | None) -> str:
    """Say that equal kernels came out too far apart for a number to be trusted; "" where they did not."""
    if noise_percent is None or noise_percent <= MAX_NOISE_PERCENT:
        return ""
    return (
        f"equal kernels came out up to {noise_percent:,.0f} % apart, and above {MAX_NOISE_PERCENT:.0f} % no time is "
        "believed; measure again on a quieter device"
    )


def decided_words(deciding: Interval | None) -> str:
    """Say why a time is neither faster nor slower, by the interval that the verdict goes by."""
    if deciding is None:
        return "neither faster nor slower is shown"
    ends = f"[{rounded(deciding.low)}, {rounded(deciding.high)}]"
    return f"the wider interval that decides, {ends}, lies neither all above 1.01 nor all below 0.99"


def _insisted(m: Measurement) -> str:
    """Say of a measurement that it was made only because the user insisted; "" of others."""
    from forewarp.gpu_runner.worker.least import MISSING

    lacks = next((p.partition(f"{MISSING}: ")[2] for p in m.protections if MISSING in p), "")
    return f" Its code ran at your insistence, without these protections: {lacks}." if lacks else ""


_VERDICTS = {
    "faster": "Faster: keep it",
    "slower": "Slower than the {other}: no gain",
    "tie": "As fast as the {other}, within 1 %",
    "inconclusive": "Inconclusive, {decided}: measure again on a quieter device",
    "ambiguous": "Ambiguous, equal kernels came out unequal or seconds and clock cycles disagree: measure again on a "
    "quieter device",
    "suspicious": "Suspicious: do not trust this number, read the log",
    "impossible": "Impossible, faster than the device can do this work: do not trust this number, read the log",
}
_FAILURES = {
    "compile_error": "It does not compile",
    "incorrect": "Wrong result: not timed",
    "runtime_error": "It failed while running",
    "timeout": "It took too long and was stopped",
    "crashed": "It crashed",
    "out_of_memory": "It ran out of memory",
}


def _summary(task: str, target: Target, m: Measurement, deciding: Interval | None) -> str:
    found = speedup_of(m)
    where = f"on {target.name}{' (replay of a recorded measurement)' if m.source == 'replay' else ''}"
    if m.status == "ok" and found is not None:
        of_reference = m.anchor == "reference"
        other = "reference" if of_reference else "other kernel"
        verdict = _VERDICTS.get(m.verdict, m.verdict).format(other=other, decided=decided_words(deciding))
        over = f"the reference of {task}" if of_reference else f"kernel {m.anchor[:10]} on {task}"
        return f"{verdict}. {found} (95 % interval) over {over} {where}."
    return f"{_FAILURES.get(m.status, m.status)}, on {task} {where}. {first_error(m.log)}".strip()
