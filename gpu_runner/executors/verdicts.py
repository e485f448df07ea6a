"""Judge a measurement: when to stop timing, what to believe of the times, and whose fault a failure is."""

from __future__ import annotations

import math
import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Final, cast

from forewarp.core.errors import TaskError, UsageError, WorkerError
from forewarp.core.roofline import floor_s
from forewarp.core.values import (
    Build,
    DeviceKind,
    Measurement,
    Signature,
    Status,
    Target,
    Task,
    TimingMode,
    Verdict,
    WorkloadTiming,
)
from forewarp.gpu_runner import statistics
from forewarp.gpu_runner.executors.client import Reply, readable
from forewarp.gpu_runner.statistics import Samples, pairs_of
from forewarp.gpu_runner.worker.channel import MACHINE, LookAnswer
from forewarp.gpu_runner.worker.requests import Judgement, TimingLook

SESSION_SPREAD: Mapping[tuple[TimingMode, DeviceKind], tuple[float, float]] = {
    ("stream", "cuda"): (0.001, 0.0),
    ("graph", "cuda"): (0.001, 0.1e-6),
    ("chain", "cuda"): (0.001, 0.02e-6),
    ("burst", "cuda"): (0.005, 1e-6),
    ("call", "cuda"): (0.05, 15e-6),
    ("call", "cpu"): (0.03, 0.0),
    ("native", "cpu"): (0.0015, 5e-6),
}
"""How equal kernels differ from session to session, which no interval of one session shows.

By the way of timing: standard deviation of log-ratios, and seconds by which one arm may be off throughout a session.
Seen where kernels were measured against themselves: see "From session to session" in `docs/measuring.md`.
"""
DISTURBED: Mapping[TimingMode, float] = {"call": 0.01, "native": 0.001}
"""Standard deviation of log-ratios on a CPU for each processor that others keep busy: they hold up one arm more.

Seen in `benchmarks/busy_machine.py` for native code; nothing has tested it for modules.
"""
ALL_COUNT: Final = (0.005, 0.01)
"""Both of these standard deviations for native code of which all calls count (`statistics.PairedSamples.all_count`).

`benchmarks/busy_machine.py` saw 0.33, 1.21 and 1.98 % beside no, one and two busy processes.
"""
UNEVEN_CALLS: Final = "one arm's calls differ more from each other than the other's, so that all of them count"
UNRESOLVED: Final = 0.1
"""Share of samples without a time beyond which there is no measurement."""
NO_DRIVER: Final = "0 active drivers"
"""Part of Triton's error where a module launches a kernel on a machine without a GPU."""
NEEDS_A_GPU: Final = (
    "it launches Triton kernels, which need a GPU; without one, forecast it with --target, or inspect it with --check"
)
WIDEST: Final = 100.0
"""Quotient of an interval's ends beyond which it says nothing."""
STOPPING_ERROR: Final = 0.01
"""Chance over a whole measurement that a candidate is stopped that does reach what it has to beat."""
REFERENCE_SHARE: Final = 0.5
"""Share of a measurement's time limit beyond which the reference is to blame for a timeout."""


def session_sd(target: Target, samples: Samples, others: float = 0.0) -> float:
    """Return the spread from session to session (log-ratio) of a workload's samples; on a CPU, `others` add to it."""
    share, offset_s = SESSION_SPREAD.get((samples.mode, target.kind), (0.0, 0.0))
    disturbed = DISTURBED.get(samples.mode, 0.0)
    if pairs_of(samples).all_count():
        share, disturbed = ALL_COUNT
    return math.hypot(share, offset_s / median(samples.candidate_s), disturbed * others * (target.kind == "cpu"))


class Looks:
    """Answers the judge's questions during one measurement: the controller's side of `worker/timing.py`.

    A workload is done once it is settled. Where there is something to `beat` (a speed-up), each look also asks whether
    the geometric mean over the workloads can still reach it. That is a one-sided test each time, with the spread from
    session to session allowed for; the k-th test gets a share of 1 / (k (k + 1)) of `STOPPING_ERROR`, and all the
    shares there can be sum to one (Bonferroni's inequality; nothing is assumed of how the tests depend on each other).
    Only looks at which every workload has samples can end the measurement, and only they count as tests. Before that,
    workloads not seen are taken to be like those seen, which decides nothing but the order: a workload that is left is
    timed again should the candidate turn out to be able to win.
    """

    def __init__(self, target: Target, beat: float | None = None) -> None:
        self._target, self._beat = target, beat
        self._seen: dict[int, WorkloadTiming] = {}
        self._tests = 0

    def __call__(self, look: TimingLook | None) -> LookAnswer:
        if look is None:
            return "on"
        if self._beat is not None and self._upper_end(look) < self._beat:
            return "beaten" if self._all_seen(look) else "leave"
        if look.sighting:
            return "on"
        timed = replace(look.samples, session_sd=session_sd(self._target, look.samples))
        return "enough" if statistics.settled(timed, late=look.late) else "on"

    def _all_seen(self, look: TimingLook) -> bool:
        return len(self._seen) == look.of

    def _upper_end(self, look: TimingLook) -> float:
        """Return the upper end of the mean speed-up over the workloads seen, at the level that this test gets."""
        # As if it were the only look: this test has a level of its own.
        timed = replace(look.samples, looks=1, session_sd=session_sd(self._target, look.samples))
        self._seen[look.index] = statistics.timing(timed)
        self._tests += self._all_seen(look)
        k = max(self._tests, 1)
        one_sided = STOPPING_ERROR / (k * (k + 1))
        return statistics.geometric_mean(list(self._seen.values()), 1 - 2 * one_sided)[2]


def timings_of(judged: Judgement, target: Target) -> tuple[WorkloadTiming, ...]:
    # Timing that ended early had a sighting to end at, besides the looks that were planned.
    sighted = int(judged.stopped_early)
    others = judged.conditions.get("other_processors", 0.0)
    return tuple(
        statistics.timing(replace(t, looks=t.looks + sighted, session_sd=session_sd(target, t, others)))
        for t in judged.timings
    )


def measurement_of(
    reply: Reply,
    task: Task,
    target: Target,
    signatures: Sequence[Signature],
    build: Build,
    *,
    anchor: str,
    limit_s: float,
    environment: Mapping[str, str],
) -> Measurement:
    """Return the measurement that a reply amounts to; raises where not the candidate is to blame."""
    judged = reply.read(Judgement)
    phases = {"compile": build.seconds, "spawn": reply.started_s, "total": build.seconds + reply.seconds}
    if judged is None:
        status, log = reply.ending(limit_s)
        return measurement_without_times(status, log, target, anchor=anchor, phases=phases, device_s=reply.seconds)
    log = readable("\n".join(t for t in (judged.log, reply.log) if t))
    if target.kind == "cpu" and NO_DRIVER in log:
        log = f"error: {NEEDS_A_GPU}\n{log}"
    if judged.status == MACHINE:
        raise machine_failed(judged.log, lost_s=reply.seconds)
    if judged.status == "anchor_wrong":
        raise UsageError(
            f"the kernel to measure against is itself incorrect: {judged.log}",
            hint="measure it alone first, and pass a correct one",
        )
    if judged.status == "reference_failed":
        raise TaskError(
            f"the reference of {task.name} failed on {target.name}; the candidate is not to blame: {judged.log}",
            hint="run the reference alone on this device first; where it runs out of memory, give the task smaller "
            "workloads",
        )
    measured = measurement_without_times(
        # C++ runs out of memory by throwing, and an uncaught throw ends as a crash.
        "out_of_memory" if judged.status != "ok" and "std::bad_alloc" in reply.log else judged.status,
        log,
        target,
        anchor=anchor,
        # What the workers took beyond the named phases is process handling: fork, cells, teardown.
        phases=phases | dict(judged.phases),
        device_s=reply.seconds,
        judged=judged,
        environment={**environment, **judged.environment},
    )
    if measured.status != "ok":
        return measured
    return with_times(measured, judged, signatures, target)


def with_times(
    measured: Measurement, judged: Judgement, signatures: Sequence[Signature], target: Target
) -> Measurement:
    """Return a correct candidate's measurement with its times, and with what speaks against them.

    Raises `WorkerError` where the launcher's clock, which no candidate reaches, could not time at all.
    """
    timings = timings_of(judged, target)
    if judged.tier == "T0" and (broken := next((b for t in timings if (b := _broken(t))), "")):
        raise WorkerError(
            f"{broken}; neither task nor candidate is to blame, and nothing is recorded",
            hint="other programs on this device disturb the clock (`nvidia-smi` names them): end them or wait, then "
            "run the command again; if it happens on an idle device, give the task larger shapes",
            lost_s=measured.device_s,
        )
    floors = [_below_floor(t, s, target) for t, s in zip(timings, signatures, strict=True)]
    timings = tuple(replace(t, verdict="impossible") if f else t for t, f in zip(timings, floors, strict=True))
    flags = (*(f for f in floors if f), *judged.flags)
    speedup, low, high = statistics.geometric_mean(timings)
    verdict: Verdict = statistics.overall(timings)
    if any(floors):
        verdict = "impossible"
    elif judged.flags:
        verdict = "suspicious"
    return replace(
        measured,
        verdict=verdict,
        speedup=speedup,
        low=low,
        high=high,
        workloads=timings,
        log="\n".join((*flags, measured.log)).strip(),
        flags=flags,
        checks=(*measured.checks, *(f"{t.workload}: {UNEVEN_CALLS}" for t in timings if pairs_of(t).all_count())),
        conditions=judged.conditions,
        stopped_early=judged.stopped_early,
    )


def measurement_without_times(
    status: str,
    log: str,
    target: Target,
    *,
    anchor: str,
    phases: Mapping[str, float],
    device_s: float = 0.0,
    judged: Judgement | None = None,
    environment: Mapping[str, str] | None = None,
) -> Measurement:
    judged = judged or Judgement(status="ok")
    return Measurement(
        status=cast("Status", status),
        verdict="incorrect" if status == "incorrect" else "failed",
        device=target.name,
        tier=judged.tier,
        anchor=anchor,
        phases=phases,
        device_s=device_s,
        log=log,
        protections=judged.protections,
        environment=environment or {},
        checks=judged.checks,
    )


def _broken(timed: WorkloadTiming) -> str:
    """Say that a workload's samples hold no times, or spread so far that they tell nothing; "" where they do tell."""
    every = (*timed.candidate_s, *timed.anchor_s)
    lost = sum(s <= statistics.NO_TIME for s in every)
    if lost > UNRESOLVED * len(every):
        return f"{timed.workload}: of {len(every)} timed calls {lost} came out with no time at all"
    if timed.high > WIDEST * timed.low:
        return f"{timed.workload}: the times tell nothing, the interval is {timed.low:.2g} to {timed.high:.2g}"
    return ""


def _below_floor(timed: WorkloadTiming, signature: Signature, target: Target) -> str:
    """Say that a workload took less time than it can; "" where it did not, or the anchor, too: no floor then."""
    floor = floor_s(signature, target)
    if timed.candidate_median_s >= floor or timed.anchor_median_s < floor:
        return ""
    return (
        f"{timed.workload}: {timed.candidate_median_s * 1e6:.1f} µs is below the floor of {floor * 1e6:.1f} µs for"
        f" {signature.bytes_moved} bytes and {signature.needed_flops:.3g} operations; the result cannot be right"
    )


def machine_failed(log: str, *, lost_s: float = 0.0) -> WorkerError:
    return WorkerError(
        f"{log}; neither task nor candidate is to blame, and nothing is recorded",
        hint="end other programs or wait for them, then run the command again",
        lost_s=lost_s,
    )


def excuse(reply: Reply, limit_s: float, task: str, *, launched: bool) -> None:
    """Raise `TaskError` or `WorkerError` where a measurement gave no answer for no fault of the candidate's.

    `launched` says that the process ran the candidate's device code, but no host code of it.
    """
    activity, killed = reply.activity, reply.exit_status == -signal.SIGKILL
    if reply.timed_out:
        if activity.reference_s > REFERENCE_SHARE * limit_s:
            raise TaskError(
                f"the reference of {task} took {activity.reference_s:.0f} of the {limit_s:.0f} s that a measurement "
                "may take; the candidate is not to blame",
                hint="run the reference alone: if it ends, give it smaller inputs (`--size`, if the task has some)",
            )
        return
    how = reply.ending(limit_s)[1]
    if killed and (launched or activity.out_of_reach):
        raise WorkerError(
            "the process that measures was killed by something else than forewarp; the candidate is not to blame, and "
            "nothing is recorded of it",
            hint="run the command again; if it happens again, look whether this machine runs out of memory (`dmesg`)",
            lost_s=reply.seconds,
        )
    if activity.in_reference:
        raise TaskError(
            f"the reference of {task} ended the process that runs it; the candidate is not to blame: {how}",
            hint="run the reference alone on this device first",
        )
    if activity.out_of_reach:
        raise WorkerError(
            f"the process that measures ended early; the candidate is not to blame: {how}",
            hint="this is a bug of forewarp, or of torch on this machine; `forewarp doctor` says more",
            lost_s=reply.seconds,
        )
