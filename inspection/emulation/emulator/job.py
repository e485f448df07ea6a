"""The judge's side of an emulation: choose shapes, have the candidate run, compare.

The process that runs a candidate gets the buffers and nothing else: expected values never leave this one.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from forewarp.core import serde
from forewarp.core.checking import Check, CheckedWorkload, CheckStatus, Finding
from forewarp.core.errors import CandidateError
from forewarp.core.values import Candidate, Workload
from forewarp.gpu_runner.formats import plan as plans
from forewarp.gpu_runner.worker.check import Mismatch
from forewarp.inspection.emulation.emulator import build, ptx
from forewarp.inspection.emulation.emulator.run import Emulation, Ending, Outcome
from forewarp.inspection.emulation.emulator.scene import Scene
from forewarp.inspection.emulation.interpreter.judging import (
    Judged,
    ReferenceFailed,
    can_be_sampled,
    in_turn,
    joined,
    look_again,
    summary,
)
from forewarp.inspection.emulation.interpreter.shapes import Constants, Shrinker, Size, defaults

MOST_ELEMENTS, MOST_BLOCKS = 1 << 17, 256
"""Elements of all tensors and blocks of all launches that a workload is shrunk to at first."""
LARGER_ELEMENTS, LARGER_BLOCKS = 1 << 20, 1 << 10
"""Of a shape that a candidate is looked at again where it was wrong at one that it may not be made for."""
_AGAIN_S = 5.0
_ATTEMPTS = 3
"""Shapes of one workload that are tried, each smaller than the last, if the first ones take too long."""
_SHARE = 0.4
"""Of a workload's time, what one run of all its blocks may take; the rest is for other orders and inputs."""
_LEAST_S = 1.0
_STATUS: Mapping[Ending, CheckStatus] = {
    "failed": "failed",
    "timeout": "failed",
    "waits": "unsupported",
    "unsupported": "unsupported",
}


def emulate(job: Mapping[str, Any], *, shrink: bool = True) -> Check:
    """Check a CUDA candidate within about `job["budget_s"]` seconds.

    `job` has the keys of `describe_job`, and `candidate`, `kinds` (workloads by device), `tolerance`, `perturb`,
    `memory`, in bytes, and `cache`, a folder for the compiled device. The first kind of workloads, that for CUDA, is
    used unless the reference cannot run it.
    Without `shrink`, shapes stay as they are.
    """
    torch.set_num_threads(1)  # whoever forks must not have threads of his own
    started = time.monotonic()
    candidate = serde.from_data(Candidate, job["candidate"])

    def check(status: CheckStatus, message: str) -> Check:
        return Check("CPU-emulated", status, (), (), time.monotonic() - started, message)

    why = _refusal(candidate)
    if why:
        return check("unsupported", why)
    for kind in ("cuda", "cpu"):
        workloads = [serde.from_data(Workload, w) for w in job["kinds"].get(kind, ())]
        with tempfile.TemporaryDirectory(prefix="emulate-") as folder, torch.no_grad():
            emulation = Emulation(candidate, Path(folder), job["memory"], Path(job["cache"]))
            try:
                judged = _all_of(job, workloads, candidate, emulation, started + job["budget_s"], shrink=shrink)
            except ReferenceFailed as e:
                why = why or str(e)
                continue
        if judged:
            return summary("CPU-emulated", judged, time.monotonic() - started)
    return check("unsupported", f"the task cannot be run on the CPU: {why}" if why else "the task has no workloads")


def _refusal(candidate: Candidate) -> str:
    """Return why a candidate cannot be emulated at all, or ""; raises `CandidateError` for a wrong plan."""
    if plans.parse(candidate).host_code:
        return "only device-only CUDA candidates can be emulated; this one has host code"
    try:
        ptx.translate(candidate.source)
    except ptx.UnsupportedPtx as e:
        return str(e)
    return build.available()


def _all_of(
    job: Mapping[str, Any],
    workloads: Sequence[Workload],
    candidate: Candidate,
    emulation: Emulation,
    until: float,
    *,
    shrink: bool,
) -> list[Judged]:
    def one(workload: Workload, limit_s: float, *, first: bool) -> Judged:
        look = _at_small_shapes if shrink else _attempt
        return look(job, workload, candidate, emulation, time.monotonic() + limit_s, changed=first)

    return in_turn(workloads, until, _LEAST_S, one)


def _at_small_shapes(
    job: Mapping[str, Any],
    workload: Workload,
    candidate: Candidate,
    emulation: Emulation,
    until: float,
    *,
    changed: bool,
) -> Judged:
    """Check one workload, at ever smaller shapes until they are quick enough, else on a sample of blocks."""
    shrinker = Shrinker(job, workload, candidate)
    constants: Constants | None = shrinker.shrink(
        defaults(job, workload), lambda s: s.within(MOST_ELEMENTS, MOST_BLOCKS)
    )
    if constants is None:
        raise ReferenceFailed(shrinker.why_not)
    judged = None
    for attempt in range(_ATTEMPTS):
        judged = _attempt(job, shrinker.with_constants(constants), candidate, emulation, until, changed=changed)
        size = shrinker.measure(constants)
        if not judged.slow or size is None or attempt == _ATTEMPTS - 1:
            break
        share = min(0.5, 0.5 / judged.slow)
        goal = Size(int(size.elements * share), int(size.programs * share))
        smaller = shrinker.shrink(constants, lambda s, g=goal: s.elements <= g.elements or s.programs <= g.programs)
        if not smaller or smaller == constants:
            break
        constants = smaller
    if judged is None or judged.slow:
        judged = _attempt(job, shrinker.with_constants(constants), candidate, emulation, until, sample=True)
    if not judged.wrong or not shrinker.cuts_blocks(constants):
        return judged

    def again(larger: Workload, *, sample: bool) -> Judged:
        return _attempt(job, larger, candidate, emulation, time.monotonic() + _AGAIN_S, sample=sample)

    why = "which its code may not be made for"
    return look_again(
        judged,
        shrinker,
        shrinker.shrink(defaults(job, workload), lambda s: s.within(MOST_ELEMENTS, MOST_BLOCKS), whole_blocks=True),
        Size(LARGER_ELEMENTS, LARGER_BLOCKS),
        again,
        (why, why),
    )


def _attempt(
    job: Mapping[str, Any],
    workload: Workload,
    candidate: Candidate,
    emulation: Emulation,
    until: float,
    *,
    changed: bool = False,
    sample: bool = False,
) -> Judged:
    """Check one workload at one shape: in two orders and, if wanted, on `changed` inputs for half of the time."""
    middle = (time.monotonic() + until) / 2
    try:
        scene = Scene(job, workload, candidate)
    except CandidateError as e:
        return Judged("failed", CheckedWorkload(workload.name, workload.constants, 0, 0, None, str(e)))
    except Exception as e:  # the reference's own code may raise anything
        raise ReferenceFailed(f"{type(e).__name__}: {e}") from None
    if sample and not can_be_sampled(scene.plan, scene.signature):
        return _unjudged(scene, "too slow to emulate at any shape that the reference can be shrunk to")
    refused = emulation.prepare(scene.plan)
    if refused is not None:
        status = _STATUS[refused.ending]
        return Judged(status, replace(_unjudged(scene, refused.message).workload, programs=0))
    limit_s = max(_LEAST_S, (0.8 if sample else _SHARE) * (until - time.monotonic()))
    judged: Judged | None = None
    for name in scene.stage.cases(0):
        begun = time.monotonic()
        now = _case(scene, emulation, limit_s, sample=sample, both=judged is None)
        judged = now if judged is None else _both(judged, now, name)
        took = time.monotonic() - begun
        if judged.status != "ok" or not changed or time.monotonic() + took > middle:
            break
    assert judged is not None  # a stage has a case at least
    return judged


def _case(scene: Scene, emulation: Emulation, limit_s: float, *, sample: bool, both: bool) -> Judged:
    """Run the candidate on what is on stage, and, if wanted, a second time in the opposite order."""
    judged = _judge(scene, emulation, limit_s, sample=sample)
    if judged.status != "ok" or not both or sample:
        return judged
    again = _judge(scene, emulation, limit_s, descending=True)
    if again.slow or again.status == "unsupported":
        return judged  # only blocks that run in order can wait for each other's results
    message = again.workload.message
    if message:
        message = f"only where threads and blocks run in descending order, so the order matters: {message}"
    return replace(_both(judged, again), workload=replace(_both(judged, again).workload, message=message))


def _judge(
    scene: Scene, emulation: Emulation, limit_s: float, *, descending: bool = False, sample: bool = False
) -> Judged:
    """Run the candidate once, and compare."""
    scene.stage.prepare(0)
    outcome = emulation.run(scene, limit_s, descending=descending, sample=sample)
    partial = sample and outcome.ending == "ok" and outcome.blocks < scene.plan.programs
    seen = CheckedWorkload(scene.workload.name, scene.workload.constants, outcome.blocks, scene.plan.programs, None)
    certain = tuple(f for f in outcome.findings if f.kind != "uninitialised")
    if outcome.ending == "timeout":
        slow = scene.plan.programs / max(0.5, outcome.blocks)
        message = f"{outcome.message}: an endless loop, or too large a shape for the time allowed"
        return Judged("failed", replace(seen, message=message), certain, slow)
    if outcome.ending != "ok":
        return Judged(_STATUS[outcome.ending], replace(seen, message=outcome.message), certain)
    if partial and outcome.atomics:
        return _unjudged(scene, "too slow to emulate, and what only some blocks add up cannot be compared")
    return _compared(scene, outcome, seen, certain, partial=partial)


def _compared(
    scene: Scene, outcome: Outcome, seen: CheckedWorkload, certain: tuple[Finding, ...], *, partial: bool
) -> Judged:
    missing = scene.unwritten()
    if partial:
        scene.fill_unwritten()
    try:
        scene.stage.check_inputs()
        error = scene.stage.compare(0)
    except Mismatch as e:
        never = [f"{count} elements of {name} were never written" for name, count in missing.items() if not partial]
        message = "; ".join([str(e), *never])
        # Shared memory that is read before it is written may be padding that nobody uses; where outputs are wrong, not.
        return Judged("incorrect", replace(seen, error=scene.stage.error(0), message=message), outcome.findings)
    return Judged("ok", replace(seen, error=error), certain)


def _unjudged(scene: Scene, message: str) -> Judged:
    seen = CheckedWorkload(scene.workload.name, scene.workload.constants, 0, scene.plan.programs, None, message)
    return Judged("unsupported", seen)


def _both(one: Judged, other: Judged, name: str = "") -> Judged:
    """Return two cases of a workload as one: the first, with the other's failure if it failed."""
    findings = joined([*one.findings, *other.findings])
    if other.status != "ok" and not other.slow:
        message = f"{name}: {other.workload.message}" if name else other.workload.message
        return replace(other, workload=replace(other.workload, message=message), findings=findings)
    error = max(one.workload.error or 0.0, other.workload.error or 0.0)
    return replace(one, workload=replace(one.workload, error=error), findings=findings)
