"""The judge's side of a check: choose shapes, have the candidate run in a process of its own, compare, sum up.

Expected values never leave this process, and none is worked out before the candidate's process is started.
"""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import torch

from forewarp.core.checking import FAULTS, Check, CheckedWorkload, CheckStatus, Finding
from forewarp.core.errors import CandidateError
from forewarp.core.values import Workload
from forewarp.gpu_runner.worker.loading import load_problem
from forewarp.inspection.emulation.scene import Scene, ShapeOnly
from forewarp.inspection.emulation.shapes import Constants, Shrinker, Size, defaults
from forewarp.inspection.jobs import CheckJob

_ORDER: tuple[CheckStatus, ...] = ("failed", "incorrect", "unsupported", "ok")
_ATTEMPTS = 3
"""Shapes of one workload that are tried, each smaller than the last, if the first ones take too long."""
_SHARE = 0.4
"""Of a workload's time, what one run of all its programs may take; the rest is for more inputs."""
LEAST_S = 1.0


@dataclass(frozen=True, slots=True)
class WorkloadJudgement:
    """Outcome of one workload, the seconds if it was too `slow`, and what `interpreter.memory.Memory` counted."""

    status: CheckStatus
    workload: CheckedWorkload
    findings: tuple[Finding, ...] = ()
    slow: float = 0.0
    reach: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def wrong(self) -> bool:
        """True if its outputs, or what it did to memory, were wrong."""
        return self.status == "incorrect" or any(f.kind in FAULTS for f in self.findings)

    def with_message(self, message: str, **changes: Any) -> WorkloadJudgement:
        return replace(self, workload=replace(self.workload, message=message), **changes)

    def with_note(self, note: str) -> WorkloadJudgement:
        """Return this judgement with a note behind its message."""
        return self.with_message("; ".join(filter(None, (self.workload.message, note))))

    def with_findings(self, findings: Sequence[Finding], own: Constants) -> WorkloadJudgement:
        """Return this judgement with what was found at the task's own shape, too."""
        shape = ", ".join(f"{k} = {v}" for k, v in own.items())
        found = [replace(f, message=f"{f.message}; at the task's own shape, {shape}") for f in findings]
        return replace(self, findings=merged([*self.findings, *found]))

    def with_case(self, other: WorkloadJudgement, name: str) -> WorkloadJudgement:
        """Return this case of a workload and another as one: this one, or the other, called `name`, if it failed."""
        findings = merged([*self.findings, *other.findings])
        if other.status in ("failed", "incorrect") or (other.status == "unsupported" and not other.slow):
            return other.with_message(f"{name}: {other.workload.message}", findings=findings)
        error = max(self.workload.error or 0.0, other.workload.error or 0.0)
        return replace(self, workload=replace(self.workload, error=error), findings=findings)


CaseJudge = Callable[..., WorkloadJudgement]
"""Runs a candidate on what is on stage, and compares.

Takes `limit_s`, whether a `sample` of programs is run, and whether it is the `first` case, which may be run in several
ways.
"""


class ShapeRefused(Exception):
    """The reference, or the plan, does not go with the shapes that were tried."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Sizes of shapes: the most of the first to be tried; of one with whole blocks, and what that may come to; and of
    those that have one constant near the task's own.

    `again_s` is how long, in seconds, other shapes may be looked at. `unsuited` says what may be the matter with a
    small shape where the candidate is right at a larger one, and where that could not be told.
    """

    first: Size
    whole: Size
    most: Size
    stretched: Size
    again_s: float
    unsuited: tuple[str, str]


class Checker(ABC):
    """Checks a candidate on the first kind of workloads that the reference can run."""

    bounds: ClassVar[Bounds]

    def __init__(self, job: CheckJob) -> None:
        torch.set_num_threads(1)  # whoever forks must not have threads of his own
        self.job, self.candidate = job, job.candidate

    @abstractmethod
    def started(self, scene: Scene) -> contextlib.AbstractContextManager[CaseJudge | WorkloadJudgement]:
        """Start the candidate for a scene; yield what judges it, or the judgement of one that cannot run at all."""

    def check(self) -> Check:
        started, why = time.monotonic(), ""
        for kind in ("cuda", "cpu"):
            try:
                judged = self._in_turn(self.job.task.workloads.get(kind, ()), started + self.job.budget_s)
            except ShapeRefused as e:
                why = why or str(e)
                continue
            if judged:
                return self._summary(judged, time.monotonic() - started)
        message = f"the task cannot be run on the CPU: {why}" if why else "the task has no workloads"
        return Check(self.job.how, "unsupported", (), (), time.monotonic() - started, message)

    def _in_turn(self, workloads: Sequence[Workload], until: float) -> list[WorkloadJudgement]:
        """Check workloads until one fails or cannot be judged, each in its share of the time."""
        judged: list[WorkloadJudgement] = []
        for index, workload in enumerate(workloads):
            left = (until - time.monotonic()) / (len(workloads) - index)
            if left < LEAST_S and judged:
                missed = CheckedWorkload(workload.name, workload.constants, 0, 0, None, "not run: the time was over")
                judged.append(WorkloadJudgement("ok", missed))
                continue
            judged.append(self._at_small_shapes(workload, max(left, LEAST_S), changed=not judged))
            if judged[-1].status in ("failed", "unsupported"):
                break
        return judged

    def _summary(self, judged: Sequence[WorkloadJudgement], seconds: float) -> Check:
        """Return the check that workloads make together: as bad as the worst of them."""
        worst = min(judged, key=lambda j: _ORDER.index(j.status))
        message = f"{worst.workload.workload}: {worst.workload.message}" if worst.status != "ok" else ""
        findings = merged([f for j in judged for f in j.findings])
        return Check(self.job.how, worst.status, tuple(j.workload for j in judged), findings, seconds, message)

    def _at_small_shapes(self, workload: Workload, limit_s: float, *, changed: bool) -> WorkloadJudgement:
        """Check one workload, at ever smaller shapes until they are quick enough, else on a sample of programs."""
        until = time.monotonic() + limit_s
        shrinker = Shrinker(self.job, workload, self.candidate)
        constants = shrinker.shrink(defaults(self.job, workload), self.bounds.first.holds)
        if constants is None:
            raise ShapeRefused(shrinker.why_not)

        def attempt(at: Constants, *, sample: bool = False) -> WorkloadJudgement:
            left = max(LEAST_S, until - time.monotonic())
            return self.attempt(shrinker.with_constants(at), left, changed=changed, sample=sample)

        judged = attempt(constants)
        for _ in range(_ATTEMPTS - 1):
            size = shrinker.measure(constants)
            if not judged.slow or size is None:
                break
            share = min(0.5, _SHARE * max(LEAST_S, until - time.monotonic()) / judged.slow)
            goal = Size(int(size.elements * share), int(size.programs * share))
            smaller = shrinker.shrink(constants, partial(_near, goal))
            if smaller is None or smaller == constants:
                break
            constants = smaller
            judged = attempt(constants)
        if judged.slow and judged.status != "failed":
            judged = attempt(constants, sample=True)
        judged = self.suited(shrinker, judged, constants)
        if judged.status != "ok" or constants == defaults(self.job, workload):
            return judged
        if not judged.wrong:
            judged = self._stretched(workload, shrinker, judged, until)
        return judged if judged.status != "ok" else self.unhidden(workload, shrinker, judged)

    def _stretched(
        self, workload: Workload, shrinker: Shrinker, judged: WorkloadJudgement, until: float
    ) -> WorkloadJudgement:
        """Check a right candidate with one constant near the task's own; return the first judgement that is wrong."""
        until = min(until, time.monotonic() + self.bounds.again_s)
        used = {**defaults(self.job, workload), **judged.workload.constants}
        for shape in shrinker.stretched(used, self.bounds.stretched.holds):
            for limit_s, sample in ((self.bounds.again_s, False), (self.bounds.again_s / 2, True)):
                if time.monotonic() > until:
                    return judged
                try:
                    again = self.attempt(shrinker.with_constants(shape), limit_s, sample=sample)
                except ShapeRefused:
                    break
                if again.wrong:
                    return again
                if again.status == "ok":
                    judged = replace(judged, reach=Counter(judged.reach) | Counter(again.reach))
                if not again.slow:
                    break
        return judged

    def suited(self, shrinker: Shrinker, judged: WorkloadJudgement, used: Constants) -> WorkloadJudgement:
        """Check a candidate that was wrong at a small shape again at one that suits its code as the task's own does."""
        if not judged.wrong or not shrinker.cuts_blocks(used):
            return judged
        bounds, own = self.bounds, dict(shrinker.original)
        shape = ", ".join(f"{k} = {v}" for k, v in judged.workload.constants.items())
        larger = shrinker.shrink(own, bounds.whole.holds, whole_blocks=True)
        size = shrinker.measure(larger) if larger is not None else None
        if larger is not None and size is not None and bounds.most.holds(size):
            for sample in (False, True):
                found = self.attempt(shrinker.with_constants(larger), bounds.again_s, sample=sample)
                if found.status in ("incorrect", "failed") and not found.slow:
                    return found
                if found.status == "ok":
                    what = judged.workload.message or "it has faults"
                    return found.with_message(f"right here, but not at {shape}, {bounds.unsuited[0]}: {what}")
        return judged.with_message(f"{judged.workload.message}; at {shape}, {bounds.unsuited[1]}".removeprefix("; "))

    def unhidden(self, workload: Workload, shrinker: Shrinker, judged: WorkloadJudgement) -> WorkloadJudgement:
        """Look for what a small shape hides, after a check that found nothing wrong."""
        del workload, shrinker
        return judged

    def shape_only(self, shrinker: Shrinker, constants: Constants) -> ShapeOnly:
        """Return a shape without values; raises what the reference raises, and `CandidateError`."""
        workload = shrinker.with_constants(constants)
        signature = None if self.candidate.language == "python" else shrinker.signature(constants)
        return ShapeOnly(load_problem(self.job, workload, 0), workload, self.candidate, signature)

    def attempt(
        self, workload: Workload, limit_s: float, *, changed: bool = False, sample: bool = False
    ) -> WorkloadJudgement:
        """Check one workload at one shape, on fresh inputs and, if wanted, on `changed` ones for half of the time."""
        started = time.monotonic()
        try:
            scene = Scene(self.job, workload, self.candidate)
        except CandidateError as e:
            return unjudged(workload, str(e), status="failed")
        except Exception as e:  # the reference's own code may raise anything
            raise ShapeRefused(f"{type(e).__name__}: {e}") from None
        if sample and not scene.can_be_sampled:
            message = (
                f"too slow for a check ({self.job.how}) at any shape that the reference can be shrunk to; try again "
                "where less else runs"
            )
            return unjudged(workload, message, scene.plan.programs)
        with self.started(scene) as judge:
            if isinstance(judge, WorkloadJudgement):
                return judge
            case_s = max(LEAST_S, (0.8 if sample else _SHARE) * (started + limit_s - time.monotonic()))
            judged: WorkloadJudgement | None = None
            for name in scene.stage.cases(0):
                begun = time.monotonic()
                scene.stage.prepare(0)
                now = judge(case_s, sample=sample, first=judged is None)
                judged = now if judged is None else judged.with_case(now, name)
                took = time.monotonic() - begun
                late = time.monotonic() + took > started + limit_s / 2
                if judged.status != "ok" or not changed or sample or late:
                    break
        assert judged is not None  # a stage has a case at least
        return judged


def unjudged(workload: Workload, message: str, grid: int = 0, status: CheckStatus = "unsupported") -> WorkloadJudgement:
    """Return the outcome of a workload that was not run to its end."""
    return WorkloadJudgement(status, CheckedWorkload(workload.name, workload.constants, 0, grid, None, message))


def merged(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings with one for each kind and place."""
    known: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        key = finding.kind, finding.where
        known[key] = replace(known[key], count=known[key].count + finding.count) if key in known else finding
    return tuple(known.values())


def _near(goal: Size, size: Size) -> bool:
    return size.elements <= goal.elements or 0 < size.programs <= goal.programs
