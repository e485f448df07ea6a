"""The controller's side of measuring on a GPU: observers lift modules, a launcher times programs, cells the rest."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from forewarp.core import serde
from forewarp.core.errors import DeviceError, WorkerError
from forewarp.core.values import Target
from forewarp.gpu_runner.executors.client import (
    ChildSession,
    OnLook,
    Reply,
    WorkerClient,
    closed_error,
    lost_error,
    readable,
)
from forewarp.gpu_runner.lifting.graph import NO_CAPTURE
from forewarp.gpu_runner.lifting.window import BASES
from forewarp.gpu_runner.worker.channel import LookAnswer, close_all
from forewarp.gpu_runner.worker.requests import (
    BuiltKernel,
    JudgedStatus,
    Judgement,
    LauncherJob,
    LaunchRequest,
    MeasureJob,
    ObserveRequest,
    ObserverJob,
    TimingLook,
)

ARMS = ("candidate", "anchor")
OPENING_S = 30.0
"""Seconds within which a process has opened a GPU, also in company; what takes longer is not waited for."""
_FINAL = ("runtime_error", "incorrect", "out_of_memory")
"""What a module does under observation and would do anywhere."""
_NAME = 80
"""Characters of a kernel's name in a result; C++ has names of thousands."""


@dataclass(slots=True)
class Observation:
    """Outcome of observing a module.

    `status` is "ok" with `programs` (data of `lifting.program.Programs`), `descriptors` to be closed, and the `session`
    of the observer, which may not be gone yet; "unlifted" where there is no program; else how the module failed.
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
        self.wait_for_end()
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = ()

    def strides(self) -> dict[str, list[list[int]]]:
        return {p["workload"]: [o["stride"] for o in p["outputs"]] for p in self.programs.get("programs", ())}


class Observers:
    """An observer for each module, and a spare one for each arm; not safe to use from several threads at once.

    With `inductor`, observers have torch's Inductor imported; with `ahead`, the next one opens the device meanwhile.
    """

    def __init__(self, worker: WorkerClient, builds: Path) -> None:
        self._worker, self._builds = worker, builds
        self.inductor = self.ahead = False
        self._spares: dict[str, ChildSession] = {}

    def wait_until_ready(self) -> None:
        for spare in self._spares.values():
            spare.wait_until_ready(OPENING_S)

    def _open(self, arm: str) -> ChildSession:
        base, builds = BASES[ARMS.index(arm)], str(self._builds)
        return _open_on_builds(self._worker, ObserverJob(base=base, builds=builds, inductor=self.inductor))

    def observe(self, arm: str, request: ObserveRequest, limit_s: float) -> Observation:
        """Observe a module within `limit_s` seconds; the observer is killed with that."""
        start = time.perf_counter()
        # One that waited for long may be gone: no line of the module has been read then.
        observed = self._observe(arm, request, limit_s) or self._observe(arm, request, limit_s)
        if observed is None:
            observed = Observation("unlifted", "no process could be opened on the device to observe the module in", 0.0)
        observed.seconds = time.perf_counter() - start
        observed.phases["observe"] = observed.seconds
        return observed

    def _observe(self, arm: str, request: ObserveRequest, limit_s: float) -> Observation | None:
        """Observe once; None where the observer ended before it was ready."""
        session = self._spares.pop(arm, None) or self._open(arm)
        if self.ahead:
            self._spares[arm] = self._open(arm)
        try:
            reply = session.request(request, limit_s)
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

    def _observed(self, reply: Reply, limit_s: float) -> Observation | None:
        answer = reply.answer
        if answer is None:
            close_all(reply.descriptors)
            if not reply.started_s and not reply.timed_out:
                return None
            status, log = reply.ending(limit_s)
            # Code that goes on where the driver refuses something during a capture, such as `cublasCreate`, crashes.
            return Observation(status, f"{NO_CAPTURE}: {log}" if status == "crashed" else log, reply.seconds)
        try:
            status, programs = str(answer["status"]), answer.get("programs", {})
            # Why it cannot be lifted says it all; what a module that fails has printed may tell why it does.
            texts = [str(answer["log"])] if status == "unlifted" else [str(answer["log"]), reply.log]
            log = readable("\n".join(t for t in texts if t))
            guards = tuple(readable(str(g), 200) for g in answer["protections"])
            phases = {f"observe {k}": float(v) for k, v in dict(answer.get("seconds", {})).items()}
            if status == "ok":
                return Observation(status, log, 0.0, dict(programs), reply.descriptors, guards, phases)
        except (KeyError, TypeError, ValueError):
            close_all(reply.descriptors)
            return Observation(
                "unlifted", "the process that observed the module gave an answer that makes no sense", 0.0
            )
        close_all(reply.descriptors)
        return Observation(status, log, 0.0, protections=guards)

    def close(self) -> None:
        while self._spares:
            self._spares.popitem()[1].close()


@dataclass(frozen=True, slots=True)
class LaunchOutcome:
    """The judge's reply, what was lifted of the candidate, what the anchor was, and the seconds of observing."""

    reply: Reply
    lifting: str
    anchor: str
    phases: Mapping[str, float] = field(default_factory=dict[str, float])


def _seed() -> int:
    return int.from_bytes(os.urandom(6), "little")


@dataclass(slots=True)
class _Reference:
    """State of the reference: kept as a program, or why not; `weight_seed` draws the weights of all candidates."""

    task: str = ""
    weight_seed: int = field(default_factory=_seed)
    kept: bool = False
    why_not: str = ""
    strides: dict[str, list[list[int]]] | None = None


class LauncherClient:
    """One launcher, kept from candidate to candidate of a task, or `of_all_tasks`; used by one thread at a time.

    Nothing here opens the device while something is timed, nor between measurements, when another process may time.
    """

    def __init__(self, worker: WorkerClient, target: Target, builds: Path, *, of_all_tasks: bool = False) -> None:
        self._worker, self._target, self._builds = worker, target, builds
        self._of_all_tasks = of_all_tasks
        self._observers = Observers(worker, builds)
        self._session: ChildSession | None = None
        self._spares: list[ChildSession] = []
        self._reference = _Reference()

    def measure(self, job: MeasureJob, task: str, on_look: OnLook, limit_s: float) -> LaunchOutcome:
        """Measure a job of this task, each process within `limit_s`; raises `WorkerError` and `DeviceError`."""
        start = time.perf_counter()
        job = replace(job, random_seed=_seed())
        self._observers.inductor |= job.inductor
        reply = None
        for _ in range(2):
            launched = self._measure(job, task, on_look, limit_s)
            reply, judged = launched.reply, launched.reply.read(Judgement)
            if judged is None and self._worker.closed:
                raise closed_error()
            if reply.lost:
                self.end()
                raise lost_error(reply.seconds)
            if judged is None and not reply.started_s:
                self.close()  # the launcher had gone before the job began, idle for long or killed, and so have others
                continue
            if judged is None or judged.broken:
                self.end()
            if judged is None or judged.status != "canary_wrong":
                waited = time.perf_counter() - start - reply.seconds
                whole = replace(reply, seconds=reply.seconds + waited, started_s=reply.started_s + waited)
                return replace(launched, reply=whole)
        if reply is not None and reply.answer is None:
            raise WorkerError(
                f"the process that launches kernels on {self._target.name} does not start:\n{reply.log}",
                hint="`forewarp doctor` says more",
            )
        raise DeviceError(
            f"{self._target.name} does not give the right result for a kernel that is known to be right",
            hint="look at `nvidia-smi`; the GPU may need a reset, or other programs hold its memory",
        )

    def open_ahead(self) -> None:
        """Open the device for the next module and the next task, too, in each measurement from now on."""
        self._observers.ahead = True

    def _wait_until_ready(self) -> None:
        self._observers.wait_until_ready()
        for launcher in (self._session, *self._spares):
            if launcher is not None:
                launcher.wait_until_ready(OPENING_S)

    def _open(self) -> ChildSession:
        return _open_on_builds(self._worker, LauncherJob(builds=str(self._builds)))

    def open(self, task: str, limit_s: float, ahead: int) -> None:
        """Have a launcher open the device for a task, and wait for it; `ahead` more open it for the next tasks."""
        if not self._serves(task) and not self._spares:
            self.end()
            self._spares = [self._open() for _ in range(1 + ahead)]
        self._session_of(task).wait_until_ready(limit_s)
        self._wait_until_ready()

    def _serves(self, task: str) -> bool:
        alive = self._session is not None and self._session.alive
        return alive and (self._of_all_tasks or self._reference.task == task)

    def _session_of(self, task: str) -> ChildSession:
        if self._session is None or not self._serves(task):
            self.end()
            self._session = self._spares.pop() if self._spares else self._open()
        if self._reference.task != task:
            self._reference = _Reference(task)
        return self._session

    def _measure(self, job: MeasureJob, task: str, on_look: OnLook, limit_s: float) -> LaunchOutcome:
        session = self._session_of(task)
        if self._observers.ahead and not self._spares:
            self._spares = [self._open()]
        job = replace(job, weight_seed=self._reference.weight_seed)
        arms: dict[str, Observation] = {}

        def asked(look: TimingLook | None) -> LookAnswer:
            if look is None:
                # Nothing that a module left running on the device may go on while something is timed.
                for observed in arms.values():
                    observed.wait_for_end()
                self._wait_until_ready()
            return on_look(look)

        try:
            self._observe_anchor(job, arms, limit_s)
            if job.candidate.language == "python":
                wanted = self._observing(job, job.candidate)
                arms["candidate"] = self._observers.observe("candidate", wanted, limit_s)
            launched = self._launch(job, arms, asked, session, limit_s)
            self._wait_until_ready()
            return replace(launched, phases=arms["candidate"].phases if "candidate" in arms else {})
        finally:
            for observed in arms.values():
                observed.close()

    def _observing(self, job: MeasureJob, module: BuiltKernel | None) -> ObserveRequest:
        strides = None if module is None else self._reference.strides
        return ObserveRequest(job=job, module=module, strides=strides)

    def _observe_anchor(self, job: MeasureJob, arms: dict[str, Observation], limit_s: float) -> None:
        """Observe what the candidate is measured against, unless the launcher has it or it cannot be lifted."""
        if job.anchor is not None:
            if job.anchor.language == "python":
                rival = self._observing(job, job.anchor)
                arms["anchor"] = self._observers.observe("anchor", rival, limit_s)
            return
        known = self._reference
        if not known.kept and not known.why_not:
            observed = self._observers.observe("anchor", self._observing(job, None), limit_s)
            if observed.status == "ok":
                arms["anchor"], known.strides = observed, observed.strides()
            else:
                observed.close()
                known.why_not = observed.log or observed.status

    def _launch(
        self, job: MeasureJob, arms: dict[str, Observation], on_look: OnLook, session: ChildSession, limit_s: float
    ) -> LaunchOutcome:
        failed = next((o for o in arms.values() if o.status != "ok"), None)
        if failed is None:
            reply = self._request(job, arms, on_look, session, limit_s)
            if job.anchor is None and not self._reference.why_not and (why := _anchor_fails(job, reply)):
                # The reference itself is right by definition: it is called as it is from now on.
                self._reference.why_not, self._reference.kept = why, False
                if (gone := arms.pop("anchor", None)) is not None:
                    gone.close()
                reply = self._request(job, arms, on_look, session, limit_s)
            failed, judged = _doubt(reply), reply.read(Judgement)
            if job.candidate.language != "python" or failed is None:
                return LaunchOutcome(reply, _summary(arms.get("candidate")), self._anchor(job))
            if judged is None or judged.broken:
                session.close()
        elif failed is arms.get("candidate") and failed.status in _FINAL and not _ours(failed.log):
            return LaunchOutcome(_failure(failed), "", self._anchor(job))
        anchor = self._anchor(job)
        logs = {"candidate": arms["candidate"].log if "candidate" in arms else "", "anchor": self._reference.why_not}
        if not session.alive or "memory" in failed.log:
            self.end()  # it holds memory
        captures = {arm: NO_CAPTURE not in log for arm, log in logs.items()}
        cells = replace(job, captures=captures, flush_bytes=2 * (self._target.l2_bytes or 64 << 20))
        on_look(None)
        # The module itself is run: what it does in its cell is what is said of it.
        run = self._worker.run(cells, limit_s, on_look)
        judged = run.read(Judgement)
        ran = judged is not None and judged.status == "ok"
        return LaunchOutcome(run, f"not lifted: {failed.log}" if ran else "", anchor)

    def _request(
        self, job: MeasureJob, arms: dict[str, Observation], on_look: OnLook, session: ChildSession, limit_s: float
    ) -> Reply:
        known = self._reference
        request = LaunchRequest(
            job=job,
            programs={arm: o.programs for arm, o in arms.items()},
            keep_anchor=job.anchor is None and known.kept,
            anchor_captures=NO_CAPTURE not in known.why_not,
        )
        # In the order in which the launcher takes them.
        descriptors = [d for arm in ("candidate", "anchor") if arm in arms for d in arms[arm].descriptors]
        reply = session.request(request, limit_s, on_look, descriptors)
        if job.anchor is not None:
            known.kept = False  # another kernel has taken its place
        elif "anchor" in arms:
            judged = reply.read(Judgement)
            known.kept = judged is not None and judged.status != "refused"
        return reply

    def _anchor(self, job: MeasureJob) -> str:
        if job.anchor is not None:
            return "a kernel"
        return f"called as it is: {self._reference.why_not}" if self._reference.why_not else "lifted"

    def end(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None
        self._reference = _Reference()

    def close(self) -> None:
        self.end()
        while self._spares:
            self._spares.pop().close()
        self._observers.close()


def _doubt(reply: Reply) -> Observation | None:
    """Return the failure of a lifted module that may be the lifting's fault; None where it is none."""
    judged = reply.read(Judgement)
    if judged.status in ("ok", "canary_wrong") if judged is not None else not reply.started_s:
        return None
    why = (judged.log if judged is not None else "") or "the launcher did not finish it"
    return Observation("unlifted", f"as a program it is not what it is as a module ({why})", reply.seconds)


def _ours(log: str) -> bool:
    """Return whether an error comes of the observation: some modules ask about torch's memory, which is ours there."""
    return "luggable" in log


def _failure(observed: Observation) -> Reply:
    failed = Judgement(
        status=cast("JudgedStatus", observed.status),
        log=observed.log,
        tier="T0",
        phases={"setup": observed.seconds},
        protections=observed.protections,
    )
    return Reply(serde.to_data(failed), "", observed.seconds, observed.seconds)


def _anchor_fails(job: MeasureJob, reply: Reply) -> str:
    """Return why the reference's program cannot be measured against; "" where that is not what went wrong."""
    judged = reply.read(Judgement)
    if judged is not None and judged.status == "anchor_wrong":
        return f"as a program it gives other results ({judged.log})"
    if judged is not None and judged.status == "refused" and job.candidate.language != "python":
        return judged.log
    return ""


def _summary(observed: Observation | None) -> str:
    """Say what a module was lifted to, as for its first workload; "" for kernels that need no lifting."""
    if observed is None:
        return ""
    nodes: list[Mapping[str, Any]] = observed.programs["programs"][0]["nodes"]
    names = Counter(readable(str(n["launch"]["name"]), _NAME) for n in nodes if n["kind"] == "launch")
    others = Counter(n["kind"] for n in nodes if n["kind"] in ("fill", "copy"))
    parts = [f"{count} × {name}" if count > 1 else name for name, count in (names + others).items()]
    return f"lifted to {sum(names.values())} launch{'es' if sum(names.values()) != 1 else ''}: {', '.join(parts)}"


def _open_on_builds(worker: WorkerClient, job: ObserverJob | LauncherJob) -> ChildSession:
    Path(job.builds).mkdir(parents=True, exist_ok=True)  # a folder that is made later could not be read
    return worker.open(job)
