"""Holdout test of a winner: it is measured on near shapes that nobody tuned for, on inputs drawn afresh."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from forewarp.core.errors import CandidateError, ForewarpError, WorkerError
from forewarp.core.protocols import Executor
from forewarp.core.values import (
    DEVICE_ONLY,
    UNTRUSTED,
    Candidate,
    Constant,
    Measurement,
    Signature,
    Status,
    Task,
    Verdict,
)
from forewarp.gpu_runner.formats import plan as plans
from forewarp.search.near import Near, near_shapes

HoldoutStatus = Status | Literal["not_applicable", "not_measured"]
Generalises = Literal["yes", "no", "partly", "unknown"]

_LOG = 600
_UNREACHED = 1e6
"""A speed-up that nothing reaches, so that timing stops after a first look: only correctness is in question."""
_FAILURES: Mapping[str, str] = {
    "incorrect": "wrong",
    "runtime_error": "fails",
    "timeout": "takes too long",
    "crashed": "crashes",
    "out_of_memory": "runs out of memory",
}
# A module that refuses a shape in words does what a launch plan does with constraints.
_REFUSAL = re.compile(r"^(?:AssertionError|NotImplementedError|ValueError)\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class HoldoutShape:
    """Result of a kernel on one near shape, made from the workload `origin` by `changes` of old to new values.

    `status` is the measurement's, "not_applicable" where plan or module refuse the shape, or "not_measured" where
    measuring itself failed. `speedup` is anchor / candidate with its 95 % interval; None unless the status is "ok".
    """

    name: str
    origin: str
    constants: Mapping[str, Constant]
    changes: Mapping[str, tuple[int, int]]
    status: HoldoutStatus
    signature: Signature
    verdict: Verdict | None = None
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    checks: tuple[str, ...] = ()
    log: str = ""

    @property
    def right(self) -> bool:
        """True if the kernel is correct on the shape and its time believable."""
        return self.status == "ok" and self.verdict not in UNTRUSTED

    @property
    def refused(self) -> bool:
        """True if the kernel, its plan or its compiler refused the shape before anything ran."""
        return self.status in ("not_applicable", "compile_error")


@dataclass(frozen=True, slots=True)
class Holdout:
    """Results of a kernel on shapes that nobody tuned for, and one sentence on them.

    `generalises` is "no" if it took a shape and was wrong, failed, or had a time that nobody should believe; "yes" if
    it took all and was right, "partly" if it refused some; else "unknown". `device_s` is for how long it held the
    device.
    """

    shapes: tuple[HoldoutShape, ...]
    generalises: Generalises
    device_s: float
    said: str


def examine(
    executor: Executor, task: Task, candidate: Candidate, stopped: Callable[[], bool] = lambda: False
) -> Holdout | None:
    """Compile and measure the candidate on near shapes, on fresh inputs, until `stopped`; None on a replay.

    Trouble with the executor is a shape's status, since what was measured before stays true.
    """
    if executor.candidates(task) is not None:
        return None
    kind = executor.target.kind
    found = near_shapes(task, kind, executor.describe(task), executor.describe)
    results = [_shape(executor, near, candidate) for near in found if not stopped()]
    if len(results) < len(found):
        return None
    shapes = tuple(shape for shape, _ in results)
    verdict = generalises(shapes)
    return Holdout(shapes, verdict, sum(seconds for _, seconds in results), _said(verdict, shapes))


def generalises(shapes: Sequence[HoldoutShape]) -> Generalises:
    """Return the verdict over all shapes; see `Holdout`."""
    asked = [s for s in shapes if s.status != "not_measured"]
    taken = [s for s in asked if not s.refused]
    if any(not s.right for s in taken):
        return "no"
    if not taken:
        return "unknown"
    return "yes" if len(taken) == len(asked) else "partly"


def _shape(executor: Executor, near: Near, candidate: Candidate) -> tuple[HoldoutShape, float]:
    """Measure one near shape; return it with the seconds for which the device was held."""
    workload = near.workload
    blank = HoldoutShape(
        *(workload.name, near.origin, workload.constants, near.changes, "not_measured", near.signature)
    )
    try:
        if candidate.language in DEVICE_ONLY:
            plans.resolve(plans.parse(candidate), near.signature, candidate.tunables)
        build = executor.compile(near.task, candidate)
        if build.status != "ok":
            return replace(blank, status=build.status, log=_head(build.log)), 0.0
        m = executor.measure(near.task, candidate, build, beat=_UNREACHED)
    except CandidateError as e:
        return replace(blank, status="not_applicable", log=_head(str(e))), 0.0
    except ForewarpError as e:
        return replace(blank, log=_head(str(e))), e.lost_s if isinstance(e, WorkerError) else 0.0
    return _measured(blank, candidate, m), m.device_s + m.phases.get("lost", 0.0)


def _measured(blank: HoldoutShape, candidate: Candidate, m: Measurement) -> HoldoutShape:
    refused = candidate.language == "python" and m.status == "runtime_error" and _REFUSAL.search(m.log)
    return replace(
        blank,
        status="not_applicable" if refused else m.status,
        verdict=None if refused else m.verdict,
        speedup=m.speedup,
        low=m.low,
        high=m.high,
        checks=m.checks,
        log=_head(m.log),
    )


def _head(log: str) -> str:
    text = log.strip()
    return text if len(text) <= _LOG else text[:_LOG] + "…"


def _said(verdict: Generalises, shapes: Sequence[HoldoutShape]) -> str:
    right = [s for s in shapes if s.right]
    refused = [s.name for s in shapes if s.refused]
    wrong = [s for s in shapes if not (s.right or s.refused or s.status == "not_measured")]
    if verdict == "no":
        how = "; ".join(f"{s.verdict if s.status == 'ok' else _FAILURES[s.status]} on {s.name}" for s in wrong)
        return f"fast on the given shapes; {how}: use only behind a shape guard"
    if not shapes:
        return "no constant of the task is a size that could be varied: nothing is known of other shapes"
    if verdict == "unknown" and refused:
        return f"it takes none of the near shapes ({', '.join(refused)}): use it on the given shapes only"
    if verdict == "unknown":
        return "the near shapes could not be measured: nothing is known of other shapes"
    slower = [s.name for s in right if s.verdict == "slower"]
    pace = f", but slower than the reference on {', '.join(slower)}" if slower else ""
    text = f"correct on {len(right)} near shape{'s' * (len(right) != 1)} that nobody tuned for{pace}"
    return f"{text}; it refuses {', '.join(refused)}" if refused else text
