"""Observers: processes that turn modules into device programs, each opened before there is a module for it."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forewarp.gpu_runner.executors.builds import ending
from forewarp.gpu_runner.executors.client import ChildSession, Reply, WorkerClient, readable
from forewarp.gpu_runner.lifting.window import BASES
from forewarp.gpu_runner.worker.channel import close_all

ARMS = ("candidate", "anchor")
SPARES = {"candidate": 2, "anchor": 1}
"""Observers that wait for modules: one takes longer to open the device than a measurement does."""


@dataclass(slots=True)
class Observed:
    """Outcome of observing a module.

    `status` is "ok" with `programs` (data of `lifting.program.Programs`) and `descriptors`, which are to be closed, and
    the `session` of the observer, which was killed but may not be gone yet;
    "unlifted" where there is no program to be had; else how the module failed. `log` says why. `phases` are seconds
    within those of the observation.
    """

    status: str
    log: str
    seconds: float
    programs: dict[str, Any] = field(default_factory=dict[str, Any])
    descriptors: tuple[int, ...] = ()
    protections: tuple[str, ...] = ()
    phases: dict[str, float] = field(default_factory=dict[str, float])
    session: ChildSession | None = None

    def wait_for_end(self) -> None:
        """Wait until the observer is gone, and with it whatever it left running on the device."""
        if self.session is not None:
            self.session.close()
            self.session = None

    def close(self) -> None:
        """Wait for the observer's end and close the descriptors; safe to call twice."""
        self.wait_for_end()
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = ()

    def strides(self) -> dict[str, list[list[int]]]:
        """Return the strides of the outputs by workload, in elements."""
        return {p["workload"]: [o["stride"] for o in p["outputs"]] for p in self.programs.get("programs", ())}


class Observers:
    """Spare observers for each arm; not safe to use from several threads at once."""

    def __init__(self, worker: WorkerClient, builds: Path) -> None:
        """`builds` is the folder of compiled candidates."""
        self._worker, self._builds = worker, builds
        self._spares: dict[str, list[ChildSession]] = {arm: [] for arm in ARMS}

    def prepare(self, arm: str) -> None:
        """Have observers open the device, so that the next modules of this arm need not wait for it."""
        while len(self._spares[arm]) < SPARES[arm]:
            self._spares[arm].append(self._open(arm))

    def _open(self, arm: str) -> ChildSession:
        return open_on_builds(self._worker, self._builds, {"kind": "observe", "base": BASES[ARMS.index(arm)]})

    def observe(self, arm: str, job: dict[str, Any], limit_s: float) -> Observed:
        """Observe a job's module within `limit_s` seconds; the observer is killed with that."""
        start = time.perf_counter()
        # One that waited for long may be gone: no line of the module has been read then.
        observed = self._observe(arm, job, limit_s) or self._observe(arm, job, limit_s)
        if observed is None:
            observed = Observed("unlifted", "no process could be opened on the device to observe the module in", 0.0)
        observed.seconds = time.perf_counter() - start
        observed.phases["observe"] = observed.seconds
        return observed

    def _observe(self, arm: str, job: dict[str, Any], limit_s: float) -> Observed | None:
        """Observe once; None where the observer ended before it was ready."""
        session = self._spares[arm].pop(0) if self._spares[arm] else self._open(arm)
        try:
            reply = session.request(job, limit_s)
        except BaseException:
            session.close()
            raise
        session.kill()
        found = self._observed(reply, limit_s)
        if found is not None and found.status == "ok":
            found.session = session
        else:
            session.close()
        return found

    def _observed(self, reply: Reply, limit_s: float) -> Observed | None:
        answer = reply.answer
        if answer is None:
            close_all(reply.descriptors)
            if not reply.started_s and not reply.timed_out:
                return None
            return Observed(*ending(reply, limit_s), reply.seconds)
        try:
            status, programs = str(answer["status"]), answer.get("programs", {})
            # Why it cannot be lifted says it all; what a module that fails has printed may tell why it does.
            said = [str(answer["log"])] if status == "unlifted" else [str(answer["log"]), reply.log]
            log = readable("\n".join(t for t in said if t))
            guards = tuple(readable(str(g), 200) for g in answer["protections"])
            phases = {f"observe {k}": float(v) for k, v in dict(answer.get("seconds", {})).items()}
            if status == "ok":
                return Observed(status, log, 0.0, dict(programs), reply.descriptors, guards, phases)
        except (KeyError, TypeError, ValueError):
            close_all(reply.descriptors)
            return Observed("unlifted", "the process that observed the module gave an answer that makes no sense", 0.0)
        close_all(reply.descriptors)
        return Observed(status, log, 0.0, protections=guards)

    def close(self) -> None:
        """End the spare observers."""
        for spares in self._spares.values():
            while spares:
                spares.pop().close()


def open_on_builds(worker: WorkerClient, builds: Path, job: dict[str, Any]) -> ChildSession:
    """Start a process that may read the folder of compiled candidates."""
    builds.mkdir(parents=True, exist_ok=True)  # a folder that is made later could not be read
    return worker.open(job | {"reads": [str(builds)]})
