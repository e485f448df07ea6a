"""The judge's side of a check: choose shapes, have the candidate interpreted in a confined process, compare.

Expected values never leave this process, and none is worked out before the candidate's process is started.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from forewarp.core import serde
from forewarp.core.checking import Check, CheckedWorkload, CheckStatus, Finding
from forewarp.core.errors import CandidateError
from forewarp.core.values import Candidate, Workload
from forewarp.gpu_runner.worker import protections
from forewarp.gpu_runner.worker.channel import Channel, ChannelClosed, ChannelTimeout
from forewarp.gpu_runner.worker.check import Mismatch
from forewarp.gpu_runner.worker.loading import load_problem
from forewarp.gpu_runner.worker.watch import run_watched
from forewarp.inspection.emulation.interpreter.child import live
from forewarp.inspection.emulation.interpreter.judging import (
    Judged,
    ReferenceFailed,
    can_be_sampled,
    in_turn,
    joined,
    look_again,
    summary,
)
from forewarp.inspection.emulation.interpreter.pace import Born
from forewarp.inspection.emulation.interpreter.scene import Scene, ShapeOnly
from forewarp.inspection.emulation.interpreter.shapes import (
    MOST_ELEMENTS,
    MOST_PROGRAMS,
    Constants,
    Shrinker,
    Size,
    defaults,
)

_ATTEMPTS = 3
"""Shapes of one workload that are tried, each smaller than the last, if the first ones take too long."""
_SHARE = 0.4
"""Of a workload's time, what one run of all its programs may take; the rest is for more inputs."""
_STUCK = 16
"""Times the limit that a program that was still running is taken to need."""
_LEAST_S = 1.0
_AGAIN_S = 4.0
"""What a second look at a larger shape may take, beyond the time that was set."""
LARGER_ELEMENTS = 1 << 21
"""Elements of all tensors at that look: references in half precision are slow on a CPU."""
_LOOK_S = 1.0
"""Time limit in seconds of a run without data at the task's own shape."""
_PROBE_S = 1.0
"""Time limit in seconds of one at a larger shape: loops and programs are counted when they begin."""
_GRACE_S = 15.0
_NOTHING: Mapping[str, Any] = {
    "programs": 0,
    "grid": 0,
    "findings": [],
    "suspicions": [],
    "reach": {},
    "partial": False,
    "estimate": 0.0,
    "message": "",
}
"""The report of a process that said nothing."""


def interpret(job: dict[str, Any]) -> Check:
    """Check a candidate within `job["budget_s"]`; the first kind of workloads that the reference can run is used."""
    torch.set_num_threads(1)  # whoever forks must not have threads of his own
    started = time.monotonic()
    job = job | {"target_kind": "cpu"}
    candidate = serde.from_data(Candidate, job["candidate"])
    why = ""
    for kind in ("cuda", "cpu"):
        workloads = [serde.from_data(Workload, w) for w in job["kinds"].get(kind, ())]
        try:
            judged = _all_of(job, workloads, candidate, started + job["budget_s"])
        except ReferenceFailed as e:
            why = why or str(e)
            continue
        if judged:
            return summary("CPU-interpreted", judged, time.monotonic() - started)
    message = f"the task cannot be run on the CPU: {why}" if why else "the task has no workloads"
    return Check("CPU-interpreted", "unsupported", (), (), time.monotonic() - started, message)


def _all_of(job: Mapping[str, Any], workloads: Sequence[Workload], candidate: Candidate, until: float) -> list[Judged]:
    def one(workload: Workload, limit_s: float, *, first: bool) -> Judged:
        return _one(job, workload, candidate, limit_s, changed=first)

    return in_turn(workloads, until, _LEAST_S, one)


def _one(job: Mapping[str, Any], workload: Workload, candidate: Candidate, limit_s: float, *, changed: bool) -> Judged:
    """Check one workload, at ever smaller shapes until they are quick enough, else on a sample of programs."""
    started = time.monotonic()
    until = started + limit_s
    shrinker = Shrinker(job, workload, candidate)
    constants = shrinker.shrink(defaults(job, workload), lambda s: s.within(MOST_ELEMENTS, MOST_PROGRAMS))
    if constants is None:
        raise ReferenceFailed(shrinker.why_not)
    judged, used = _quick_enough(job, shrinker, constants, candidate, until, changed=changed)
    judged = _suited(job, workload, candidate, shrinker, judged, used)
    if judged.status != "ok" or used == defaults(job, workload):
        return judged
    return Unhidden(job, workload, candidate, shrinker, time.monotonic() - started).of(judged)


def _suited(
    job: Mapping[str, Any],
    workload: Workload,
    candidate: Candidate,
    shrinker: Shrinker,
    judged: Judged,
    used: Constants,
) -> Judged:
    """Give a candidate that does not go with the small shape a second chance at one that its code suits."""
    written = shrinker.written_into_code(used)
    if judged.status == "failed" and not judged.slow and written:
        message = (
            f"it has {written} written into its code, and is not run at a smaller shape: {judged.workload.message}"
        )
        judged = replace(judged, status="unsupported", workload=replace(judged.workload, message=message))
    elif not judged.wrong:
        return judged
    if not shrinker.cuts_blocks(used):
        return judged

    def again_at(larger: Workload, *, sample: bool) -> Judged:
        return _attempt(job, larger, candidate, _AGAIN_S, sample=sample)

    return look_again(
        judged,
        shrinker,
        shrinker.shrink(defaults(job, workload), lambda s: s.within(LARGER_ELEMENTS, MOST_PROGRAMS), whole_blocks=True),
        Size(2 * LARGER_ELEMENTS, sys.maxsize),
        again_at,
        (
            "which its blocks do not divide as they do the task's",
            "which its blocks may not divide as they do the task's own shape",
        ),
    )


class Unhidden:
    """Looks for what a small shape hides: faults of addresses at the task's own, and what runs several times there."""

    def __init__(
        self, job: Mapping[str, Any], workload: Workload, candidate: Candidate, shrinker: Shrinker, spent_s: float
    ) -> None:
        """Let a look take up to half of `spent_s`, which the check itself took."""
        self._job, self._candidate, self._shrinker, self._half_s = job, candidate, shrinker, spent_s / 2
        self._own = defaults(job, workload)

    def of(self, judged: Judged) -> Judged:
        """Return the judgement of a small shape, or of a larger one that shows more, with what is found beside it."""
        report = self._look(self._own, min(_LOOK_S, max(_PROBE_S, self._half_s)))
        findings = [serde.from_data(Finding, f) for f in report["findings"]]
        shape = ", ".join(f"{k} = {v}" for k, v in self._own.items())
        findings = tuple(replace(f, message=f"{f.message}; at the task's own shape, {shape}") for f in findings)
        if not report["programs"] and report["message"]:
            return _noted(judged, f"not looked at at the task's own shape: {report['message']}")
        if hidden_by(report["reach"], judged.reach) and not judged.wrong:
            judged = self._larger(judged, report["reach"])
        judged = replace(judged, findings=joined([*judged.findings, *findings]))
        hidden = hidden_by(report["reach"], judged.reach)
        return _noted(judged, f"not seen at this shape: {'; '.join(hidden)}") if hidden else judged

    def _larger(self, judged: Judged, reach: Mapping[str, int]) -> Judged:
        """Check at the first larger shape that shows what `reach` has, if there is one within bounds."""
        until = time.monotonic() + _AGAIN_S
        small = {**self._own, **judged.workload.constants}
        for larger in self._shrinker.larger(small):
            if time.monotonic() > until:
                break
            size = self._shrinker.measure(larger)
            if size is None or size.elements > LARGER_ELEMENTS:
                continue
            if hidden_by(reach, self._look(larger, _PROBE_S)["reach"]):
                continue
            try:
                again = _attempt(self._job, self._shrinker.with_constants(larger), self._candidate, _AGAIN_S)
            except ReferenceFailed:
                break
            return judged if again.slow or again.status == "unsupported" else again
        return judged

    def _look(self, constants: Constants, limit_s: float) -> dict[str, Any]:
        """Run a few programs of each launch without data, and return their report."""
        workload = self._shrinker.with_constants(constants)
        try:
            problem = load_problem(self._job, workload, 0)
            if self._candidate.language == "python":
                scene = ShapeOnly.of_module(problem, workload)
            else:
                scene = ShapeOnly.of_plan(problem, self._shrinker.signature(constants), self._candidate)
        except Exception as e:  # the reference's own code may raise anything
            return dict(_NOTHING) | {"message": f"{type(e).__name__}: {e}"}
        with Confined(self._job, scene, self._candidate) as child:
            return child.run(limit_s, sample=False)


def hidden_by(own: Mapping[str, int], small: Mapping[str, int]) -> list[str]:
    """Say what there are several of at the task's own shape, and not at a small one; both map names to numbers."""
    return [
        f"{count} {name}, here {small.get(name, 0)}" for name, count in own.items() if count > 1 >= small.get(name, 0)
    ]


def _noted(judged: Judged, note: str) -> Judged:
    message = "; ".join(filter(None, (judged.workload.message, note)))
    return replace(judged, workload=replace(judged.workload, message=message))


def _quick_enough(
    job: Mapping[str, Any],
    shrinker: Shrinker,
    constants: Constants,
    candidate: Candidate,
    until: float,
    *,
    changed: bool,
) -> tuple[Judged, Constants]:
    """Check a workload at a shape, or at a smaller one, or a sample of programs; return with what constants."""

    def attempt(*, sample: bool = False) -> Judged:
        left = max(_LEAST_S, until - time.monotonic())
        with_these = shrinker.with_constants(constants)
        return _attempt(job, with_these, candidate, left, changed=changed, sample=sample)

    judged = attempt()
    for _ in range(_ATTEMPTS - 1):
        size = shrinker.measure(constants)
        if not judged.slow or size is None:
            break
        share = min(0.5, _SHARE * max(_LEAST_S, until - time.monotonic()) / judged.slow)
        goal = Size(int(size.elements * share), int(size.programs * share))
        smaller = shrinker.shrink(constants, partial(_near, goal))
        if smaller is None or smaller == constants:
            break
        constants = smaller
        judged = attempt()
    if not judged.slow or judged.status == "failed":
        return judged, constants
    return attempt(sample=True), constants


def _near(goal: Size, size: Size) -> bool:
    return size.elements <= goal.elements or 0 < size.programs <= goal.programs


def _attempt(
    job: Mapping[str, Any],
    workload: Workload,
    candidate: Candidate,
    limit_s: float,
    *,
    changed: bool = False,
    sample: bool = False,
) -> Judged:
    """Check one workload at one shape, on fresh inputs and, if wanted, on `changed` ones for a third of the time."""
    until = time.monotonic() + limit_s
    try:
        scene = Scene(job, workload, candidate)
    except CandidateError as e:
        return Judged("failed", CheckedWorkload(workload.name, workload.constants, 0, 0, None, str(e)))
    except Exception as e:  # the reference's own code may raise anything
        raise ReferenceFailed(f"{type(e).__name__}: {e}") from None
    if sample and not can_be_sampled(scene.plan, scene.signature):
        message = "too slow to interpret at any shape that the reference can be shrunk to; allow more time"
        return Judged(
            "unsupported", CheckedWorkload(workload.name, workload.constants, 0, scene.plan.programs, None, message)
        )
    with Confined(job, scene, candidate) as child:
        case_s = max(_LEAST_S, (0.8 if sample else _SHARE) * (until - time.monotonic()))
        judged: Judged | None = None
        for name in scene.stage.cases(0):
            started = time.monotonic()
            if judged is not None and (not changed or sample or started + child.last_s > until - limit_s / 1.5):
                break
            now = _judge(scene, child, case_s, sample=sample)
            if judged is None:
                judged = now
            elif now.status != "ok":
                message = f"{name}: {now.workload.message}"
                return replace(now, workload=replace(now.workload, message=message))
            else:
                worst = max(judged.workload.error or 0.0, now.workload.error or 0.0)
                judged = replace(judged, workload=replace(judged.workload, error=worst), findings=now.findings)
            if judged.status != "ok":
                break
    assert judged is not None
    return judged


def _judge(scene: Scene, child: Confined, limit_s: float, *, sample: bool) -> Judged:
    """Run the candidate once on what is on stage, and compare."""
    stage, workload = scene.stage, scene.workload
    stage.prepare(0)
    report = child.run(limit_s, sample=sample)
    findings = tuple(serde.from_data(Finding, f) for f in report["findings"])

    def judged(status: CheckStatus, message: str, error: float | None = None) -> Judged:
        seen = CheckedWorkload(workload.name, workload.constants, report["programs"], report["grid"], error, message)
        return Judged(status, seen, findings, reach=report["reach"])

    match report["outcome"]:
        case "slow":
            message = f"would take {report['estimate']:.0f} s at this shape"
            return replace(judged("unsupported", message), slow=report["estimate"])
        case "waits" | "unsupported":
            return judged("unsupported", report["message"])
        case "stuck":
            hint = "an endless loop, or too large a shape for the time allowed"
            # At a small enough shape, whatever ends at all ends in time.
            return replace(judged("failed", f"{report['message']}: {hint}"), slow=_STUCK * limit_s)
        case "failed":
            return judged("failed", report["message"])
        case _:
            pass
    try:
        stage.check_inputs()
        if report["partial"]:
            scene.fill_unwritten()
        error = stage.compare(0)
    except Mismatch as e:
        wrong = judged("incorrect", str(e), _error(scene))
        return replace(wrong, findings=(*findings, *(serde.from_data(Finding, f) for f in report["suspicions"])))
    return judged("ok", "", error)


def _error(scene: Scene) -> float | None:
    try:
        return scene.stage.error(0)
    except (RuntimeError, ValueError):  # of another shape or type than the reference's
        return None


class Confined:
    """The candidate's process, watched by one of its own; a context manager that ends both."""

    def __init__(self, job: Mapping[str, Any], scene: Scene | ShapeOnly, candidate: Candidate) -> None:
        self._folder = tempfile.mkdtemp(prefix="check-")
        self.last_s = 0.0
        ours, theirs = socket.socketpair()
        born = Born(
            candidate.source,
            candidate.language,
            self._folder,
            job["memory"],
            int(4 * job["budget_s"]) + 30,
            job,
            scene,
            own_shape=isinstance(scene, ShapeOnly),
        )
        self._pid = os.fork()
        if self._pid == 0:
            ours.close()
            _keep(born, theirs)
        theirs.close()
        self._channel = Channel(ours)

    def run(self, limit_s: float, *, sample: bool) -> dict[str, Any]:
        """Have the candidate run once, and return its report, or one of how its process ended."""
        started = time.monotonic()
        try:
            self._channel.send({"limit_s": limit_s, "sample": sample})
            report = self._channel.receive(limit_s + _GRACE_S)
        except ChannelTimeout:
            report = {"outcome": "stuck", "message": f"nothing was heard of it for {limit_s + _GRACE_S:.0f} s"}
        except (ChannelClosed, ValueError):
            report = {"outcome": "failed", "message": self._ending()}
        self.last_s = time.monotonic() - started
        return dict(_NOTHING) | report

    def _ending(self) -> str:
        _, code = os.waitpid(self._pid, 0)
        self._pid = 0
        status = os.waitstatus_to_exitcode(code)
        how = f"by {signal.Signals(-status).name}" if status < 0 else f"with exit status {status}"
        return f"the process that interpreted it ended {how}"

    def __enter__(self) -> Confined:
        return self

    def __exit__(self, *args: object) -> None:
        self._channel.close()
        if self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        shutil.rmtree(self._folder, ignore_errors=True)


def _keep(born: Born, line: socket.socket) -> None:
    """Watch over the candidate's process from one of its own; never returns."""
    status = 1
    try:
        protections.die_with_parent()
        stopped = run_watched(lambda contained: live(born, line, contained=contained), born.memory)
        if stopped is not None:
            Channel(line).send({"outcome": "failed", "message": f"the candidate {stopped[1]}"})
        status = 0
    finally:
        os._exit(status)
