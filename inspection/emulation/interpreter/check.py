"""Checks of Triton candidates and of modules in Triton's interpreter, with looks at the task's own shape."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from forewarp.core import serde
from forewarp.core.checking import CheckedWorkload, CheckStatus, Finding
from forewarp.core.values import Workload
from forewarp.gpu_runner.worker import protections
from forewarp.gpu_runner.worker.channel import Channel, ChannelClosed, ChannelTimeout
from forewarp.gpu_runner.worker.check import Mismatch
from forewarp.gpu_runner.worker.tracebacks import ended
from forewarp.gpu_runner.worker.watch import run_watched
from forewarp.inspection.emulation.check import Bounds, CaseJudge, Checker, ShapeRefused, WorkloadJudgement
from forewarp.inspection.emulation.interpreter.child import ChildSetup, serve_cases
from forewarp.inspection.emulation.scene import Scene, ShapeOnly
from forewarp.inspection.emulation.shapes import Constants, Shrinker, Size, defaults
from forewarp.inspection.jobs import CheckJob

_STUCK = 16
"""Times the limit that a program that was still running is taken to need."""
_AGAIN_S = 4.0
"""Seconds that a second look at a larger shape may take, beyond the time that was set."""
_LARGER = 1 << 21
"""Elements of all tensors at that look: references in half precision are slow on a CPU."""
_LOOK_S = 1.0
"""Time limit in seconds of a run without data: at the task's own shape, or a larger one."""
_GRACE_S = 15.0
_NOTHING: Mapping[str, Any] = {
    **{"outcome": "failed", "programs": 0, "grid": 0, "partial": False, "estimate": 0.0, "message": ""},
    **{"findings": [], "suspicions": [], "reach": {}, "room": {}},
}
"""The report of a process that said nothing."""


class InterpreterCheck(Checker):
    """Checks a Triton candidate, or a module that launches Triton kernels."""

    bounds = Bounds(
        first=Size(1 << 19, 256),
        whole=Size(_LARGER, 256),
        most=Size(2 * _LARGER, sys.maxsize),
        stretched=Size(1 << 20, 512),
        again_s=_AGAIN_S,
        unsuited=(
            "which its blocks do not divide as they do the task's",
            "which its blocks may not divide as they do the task's own shape",
        ),
    )

    @contextlib.contextmanager
    def started(self, scene: Scene) -> Generator[CaseJudge | WorkloadJudgement]:
        with _Confined(self.job, scene) as child:
            yield partial(_judge, scene, child)

    def suited(self, shrinker: Shrinker, judged: WorkloadJudgement, used: Constants) -> WorkloadJudgement:
        """Let a candidate that has sizes of the task in its code off, and look again at what its blocks do not suit."""
        written = shrinker.written_into_code(used)
        if judged.status != "failed" or judged.slow or not written:
            return super().suited(shrinker, judged, used)
        message = f"it has {written} written into its code, and is not run at a smaller shape: "
        return judged.with_message(message + judged.workload.message, status="unsupported")

    def unhidden(self, workload: Workload, shrinker: Shrinker, judged: WorkloadJudgement) -> WorkloadJudgement:
        """Look for faulty addresses at the task's own shape, and at a larger one for what runs several times there."""
        own = defaults(self.job, workload)
        report = self._look(shrinker, own)
        if not report["programs"] and report["message"]:
            return judged.with_note(f"not looked at at the task's own shape: {report['message']}")
        if hidden_by(report["reach"], judged.reach) and not judged.wrong:
            judged = self._larger(shrinker, own, judged, report["reach"])
        findings = [serde.from_data(Finding, f) for f in report["findings"]]
        findings += self._never_written(shrinker, {**own, **judged.workload.constants}, report)
        judged = judged.with_findings(findings, own)
        hidden = hidden_by(report["reach"], judged.reach)
        return judged.with_note(f"not seen at this shape: {'; '.join(hidden)}") if hidden else judged

    def _never_written(self, shrinker: Shrinker, small: Constants, report: Mapping[str, Any]) -> list[Finding]:
        """Return outputs that too few programs fill at the task's own shape, if the estimate holds at a small one."""
        rooms: Mapping[str, tuple[float, int]] = report["room"] if report["outcome"] == "done" else {}
        lacking = {name: room / size for name, (room, size) in rooms.items() if room < size}
        fillable = self._look(shrinker, small)["room"] if lacking else {}
        return [
            Finding("uninitialised", name, f"at most {share:.1%} of {name} is ever written: too few programs", 1)
            for name, share in lacking.items()
            if name in fillable and fillable[name][0] >= fillable[name][1]
        ]

    def _larger(
        self, shrinker: Shrinker, own: Constants, judged: WorkloadJudgement, reach: Mapping[str, int]
    ) -> WorkloadJudgement:
        """Check at the first larger shape that shows what `reach` has, if there is one within bounds."""
        until = time.monotonic() + _AGAIN_S
        for larger in shrinker.larger({**own, **judged.workload.constants}):
            if time.monotonic() > until:
                break
            size = shrinker.measure(larger)
            if size is None or size.elements > _LARGER or hidden_by(reach, self._look(shrinker, larger)["reach"]):
                continue
            with contextlib.suppress(ShapeRefused):
                again = self.attempt(shrinker.with_constants(larger), _AGAIN_S)
                return judged if again.slow or again.status == "unsupported" else again
            break
        return judged

    def _look(self, shrinker: Shrinker, constants: Constants) -> dict[str, Any]:
        try:
            scene = self.shape_only(shrinker, constants)
        except Exception as e:  # the reference's own code may raise anything
            return {**_NOTHING, "message": f"{type(e).__name__}: {e}"}
        with _Confined(self.job, scene) as child:
            return child.run(_LOOK_S, sample=False)


def hidden_by(own: Mapping[str, int], small: Mapping[str, int]) -> list[str]:
    """Say what there are several of at the task's own shape, and not at a small one; both map names to numbers."""
    return [
        f"{count} {name}, here {small.get(name, 0)}" for name, count in own.items() if count > 1 >= small.get(name, 0)
    ]


def _judge(scene: Scene, child: _Confined, limit_s: float, *, sample: bool, first: bool) -> WorkloadJudgement:
    del first
    report = child.run(limit_s, sample=sample)
    findings, suspicions = (
        tuple(serde.from_data(Finding, f) for f in report[name]) for name in ("findings", "suspicions")
    )

    def judged(
        status: CheckStatus, message: str = "", error: float | None = None, slow: float = 0.0
    ) -> WorkloadJudgement:
        grid = report["programs"], report["grid"]
        seen = CheckedWorkload(scene.workload.name, scene.workload.constants, *grid, error, message)
        return WorkloadJudgement(status, seen, findings, slow, report["reach"])

    match report["outcome"]:
        case "slow":
            seconds = report["estimate"]
            return judged("unsupported", f"would take {seconds:.0f} s at this shape", slow=seconds)
        case "waits" | "unsupported":
            return judged("unsupported", report["message"])
        case "stuck":
            hint = "an endless loop, or too large a shape for the time allowed"
            # At a small enough shape, whatever ends at all ends in time.
            return judged("failed", f"{report['message']}: {hint}", slow=_STUCK * limit_s)
        case "failed":
            return judged("failed", report["message"])
        case _:
            pass
    try:
        scene.stage.check_inputs()
        if report["partial"]:
            scene.fill_unwritten()
        return judged("ok", error=scene.stage.compare(0))
    except Mismatch as e:
        error = None
        with contextlib.suppress(RuntimeError, ValueError):  # of another shape or type than the reference's
            error = scene.stage.error(0)
        wrong = judged("incorrect", str(e), error)
        return replace(wrong, findings=(*findings, *suspicions))


class _Confined:
    """The candidate's process, watched by one of its own; a context manager that ends both."""

    def __init__(self, job: CheckJob, scene: ShapeOnly) -> None:
        self._folder = tempfile.mkdtemp(prefix="check-")
        ours, theirs = socket.socketpair()
        setup = ChildSetup(self._folder, job, scene)
        self._pid = os.fork()
        if self._pid == 0:
            ours.close()
            _watch(setup, theirs)
        theirs.close()
        self._channel = Channel(ours)

    def run(self, limit_s: float, *, sample: bool) -> dict[str, Any]:
        """Have the candidate run once, and return its report, or one of how its process ended."""
        try:
            self._channel.send({"limit_s": limit_s, "sample": sample})
            report = self._channel.receive(limit_s + _GRACE_S)
        except ChannelTimeout:
            report = {"outcome": "stuck", "message": f"nothing was heard of it for {limit_s + _GRACE_S:.0f} s"}
        except (ChannelClosed, ValueError):
            report = {"outcome": "failed", "message": self._ending()}
        return {**_NOTHING, **report}

    def _ending(self) -> str:
        _, code = os.waitpid(self._pid, 0)
        self._pid = 0
        return f"the process that interpreted it {ended(os.waitstatus_to_exitcode(code))}"

    def __enter__(self) -> _Confined:
        return self

    def __exit__(self, *args: object) -> None:
        self._channel.close()
        if self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        shutil.rmtree(self._folder, ignore_errors=True)


def _watch(setup: ChildSetup, line: socket.socket) -> None:
    """Watch over the candidate's process from one of its own; never returns."""
    status = 1
    try:
        protections.die_with_parent()
        stopped = run_watched(lambda contained: serve_cases(setup, line, contained=contained), setup.job.memory)
        if stopped is not None:
            Channel(line).send({"outcome": "failed", "message": f"the candidate {stopped[1]}"})
        status = 0
    finally:
        os._exit(status)
