"""What checks of Triton and of CUDA candidates share: workloads in turn, a second look, and adding up."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from forewarp.core.checking import FAULTS, Check, CheckedHow, CheckedWorkload, CheckStatus, Finding
from forewarp.core.values import Signature, Workload
from forewarp.gpu_runner.formats.plan import ResolvedPlan
from forewarp.inspection.emulation.interpreter.shapes import Constants, Shrinker, Size

_ORDER: tuple[CheckStatus, ...] = ("failed", "incorrect", "unsupported", "ok")


@dataclass(frozen=True, slots=True)
class Judged:
    """Outcome of one workload. `slow` says how slow it was, in the checker's own measure; 0 where it was not.

    `reach` is what `findings.Reach` counted.
    """

    status: CheckStatus
    workload: CheckedWorkload
    findings: tuple[Finding, ...] = ()
    slow: float = 0.0
    reach: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def wrong(self) -> bool:
        """Whether its outputs or what it did to memory were wrong."""
        return self.status == "incorrect" or any(f.kind in FAULTS for f in self.findings)


class ReferenceFailed(Exception):
    """The reference, or the plan, does not go with the shapes that were tried."""


class One(Protocol):
    """Checks one workload in about `limit_s` seconds; the `first` one on changed inputs, too."""

    def __call__(self, workload: Workload, limit_s: float, *, first: bool) -> Judged: ...  # noqa: D102


class Again(Protocol):
    """Checks a workload at one shape, whole or on a sample."""

    def __call__(self, workload: Workload, /, *, sample: bool) -> Judged: ...  # noqa: D102


def can_be_sampled(plan: ResolvedPlan, signature: Signature) -> bool:
    """Return whether outputs that only some programs wrote can be compared: no later launch reads what is missing."""
    return len(plan.launches) == 1 and not signature.written


def in_turn(workloads: Sequence[Workload], until: float, least_s: float, one: One) -> list[Judged]:
    """Check workloads until one fails or cannot be judged, each in its share of the time until `until`."""
    judged: list[Judged] = []
    for index, workload in enumerate(workloads):
        left = (until - time.monotonic()) / (len(workloads) - index)
        if left < least_s and judged:
            missed = CheckedWorkload(workload.name, workload.constants, 0, 0, None, "not run: the time was over")
            judged.append(Judged("ok", missed))
            continue
        judged.append(one(workload, max(left, least_s), first=not judged))
        if judged[-1].status in ("failed", "unsupported"):
            break
    return judged


def look_again(
    small: Judged, shrinker: Shrinker, larger: Constants | None, most: Size, again: Again, why: tuple[str, str]
) -> Judged:
    """Look at a larger shape, which suits the candidate's code as the task's own does, after a small one was wrong.

    `larger` is that shape, if there is one, and looked at if it is within `most`. `why` says what may be the matter
    with the small shape: where the candidate is right at the larger one, and where that could not be told.
    """
    shape = ", ".join(f"{k} = {v}" for k, v in small.workload.constants.items())
    size = shrinker.measure(larger) if larger is not None else None
    if larger is not None and size is not None and size.within(most.elements, most.programs):
        for sample in (False, True):
            found = again(shrinker.with_constants(larger), sample=sample)
            if found.status in ("incorrect", "failed") and not found.slow:
                return found
            if found.status == "ok":
                message = f"right here, but not at {shape}, {why[0]}: {small.workload.message or 'it has faults'}"
                return replace(found, workload=replace(found.workload, message=message))
    message = f"{small.workload.message}; at {shape}, {why[1]}".removeprefix("; ")
    return replace(small, workload=replace(small.workload, message=message))


def joined(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings with one for each kind and place."""
    known: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        key = finding.kind, finding.where
        known[key] = replace(known[key], count=known[key].count + finding.count) if key in known else finding
    return tuple(known.values())


def summary(how: CheckedHow, judged: Sequence[Judged], seconds: float) -> Check:
    """Return the check that workloads make together: as bad as the worst of them."""
    worst = min(judged, key=lambda j: _ORDER.index(j.status))
    message = f"{worst.workload.name}: {worst.workload.message}" if worst.status != "ok" else ""
    findings = joined([f for j in judged for f in j.findings])
    return Check(how, worst.status, tuple(j.workload for j in judged), findings, seconds, message)
