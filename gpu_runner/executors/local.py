"""Compile and measure on this machine's GPU or CPU, each candidate in processes of its own."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from forewarp.core import serde
from forewarp.core.checking import Check
from forewarp.core.errors import CandidateError, DeviceError, TaskError, UsageError, WorkerError
from forewarp.core.protocols import Subject
from forewarp.core.validation import WorkloadReport
from forewarp.core.values import Build, Candidate, Measurement, Signature, Target, Task
from forewarp.gpu_runner.compilers import extension
from forewarp.gpu_runner.executors import verdicts
from forewarp.gpu_runner.executors.builds import Builds, default_cache, ending, manifest_of
from forewarp.gpu_runner.executors.checks import Checks
from forewarp.gpu_runner.executors.client import Reply, Session, WorkerClient, readable, was_closed
from forewarp.gpu_runner.executors.device_lock import alone_on
from forewarp.gpu_runner.executors.looks import Looks
from forewarp.gpu_runner.executors.signatures import Signatures
from forewarp.gpu_runner.executors.versions import versions
from forewarp.gpu_runner.statistics import LOOKS
from forewarp.gpu_runner.tracing.cache import Traces
from forewarp.gpu_runner.tracing.values import Trace


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one candidate. `time_s` is the time spent on timing per workload; memory is in bytes.

    `trace_s` bounds the processor time of tracing one workload. `looks` are the numbers of blocks after which a
    workload's timing may end.
    """

    compile_s: float = 60.0
    measure_s: float = 120.0
    trace_s: float = 30.0
    call_s: float = 10.0
    memory: int = 8 << 30
    time_s: float = 0.8
    looks: tuple[int, ...] = LOOKS


class LocalExecutor:
    """Implements `protocols.Executor` on the local `target`."""

    def __init__(
        self,
        target: Target,
        *,
        limits: Limits | None = None,
        python: str = sys.executable,
        cache: Path | None = None,
        index: int = 0,
    ) -> None:
        """`python` is the interpreter whose torch and Triton are used, `cache` where compiled candidates are kept.

        `index` chooses among several GPUs.
        """
        self._target = target
        self._limits = limits or Limits()
        self._python = python
        self._visible = _visible(index) if target.kind == "cuda" else ""
        environment = {"CUDA_VISIBLE_DEVICES": self._visible} if target.kind == "cuda" else {}
        self._worker = WorkerClient(python, environment, cpu_only=target.kind == "cpu")
        self._builds = Builds(
            self._worker,
            target,
            (cache or default_cache()) / "builds",
            compile_s=self._limits.compile_s,
            memory=self._limits.memory,
        )
        self._checks = Checks(target, python, memory=self._limits.memory, cache=cache)
        self._described = Signatures((cache or default_cache()) / "signatures")
        self._traces = Traces(
            self._worker,
            target,
            (cache or default_cache()) / "traces",
            limit_s=self._limits.trace_s,
            memory=self._limits.memory,
        )
        self._device, self._locks = threading.Lock(), default_cache() / "locks"
        self._describing = threading.Lock()
        self._signatures: dict[str, tuple[Signature, ...]] = {}
        self._versions: dict[str, str] = {}
        self._launcher: Session | None = None

    @property
    def target(self) -> Target:
        """The device that this executor measures on."""
        return self._target

    @property
    def devices(self) -> int:
        """One candidate at a time."""
        return 1

    def candidates(self, task: Task) -> None:
        """None: any candidate can be compiled."""

    def probe(self) -> dict[str, str]:
        """Return the versions that the worker's Python has; raises `DeviceError` where it has no torch."""
        if not self._versions:
            reply = self._worker.run({"kind": "probe"}, 60.0)
            if reply.answer is None:
                raise WorkerError(f"the worker could not be probed:\n{reply.log}")
            self._versions = cast("dict[str, str]", reply.answer)
        return self._versions

    def describe(self, task: Task) -> tuple[Signature, ...]:
        """Return one signature per workload; raises `TaskError` with the reference's own error."""
        with self._describing:
            known = self._signatures.get(task.sha256)
            if known is None:
                known = self._signatures[task.sha256] = self._described.get(
                    task, self._target.kind, self._compilers(), lambda: self._describe(task)
                )
            return known

    def _compilers(self) -> dict[str, str]:
        return versions(self._python, self.probe)

    def _describe(self, task: Task) -> tuple[Signature, ...]:
        reply = self._worker.run({"kind": "describe"} | self._problem(task), self._limits.measure_s)
        return tuple(serde.from_data(Signature, s) for s in _answer_of(task, reply)["signatures"])

    def validate(self, task: Task, started: Callable[[str], None] = lambda _: None) -> tuple[WorkloadReport, ...]:
        """Put null candidates to each workload of a task; `started` gets its name before each.

        Raises `TaskError` with the reference's own error.
        """
        reports: list[WorkloadReport] = []
        for workload, signature in zip(task.workloads[self._target.kind], self.describe(task), strict=True):
            started(workload.name)
            job = self._problem(task) | {"kind": "validate"}
            job |= {"workloads": serde.to_data([workload]), "signatures": serde.to_data([signature])}
            with self._device, alone_on(self._locks, self._target, self._visible):
                reply = self._worker.run(job, self._limits.measure_s)
            reports.append(serde.from_data(WorkloadReport, _answer_of(task, reply)["workloads"][0]))
        return tuple(reports)

    def _problem(self, task: Task) -> dict[str, Any]:
        """Return what a job says of the task."""
        return {
            "reference": task.reference,
            "format": task.format,
            "files": dict(task.files),
            "workloads": serde.to_data(task.workloads[self._target.kind]),
            "tolerance": serde.to_data(task.tolerance),
            "perturb": task.perturb,
            "target_kind": self._target.kind,
            "target": serde.to_data(self._target),
        }

    def compile(self, task: Task, candidate: Candidate) -> Build:
        """Compile into the cache; of a module, the torch extensions that it builds. Triton compiles when it runs."""
        if candidate.language == "python":
            parsed = _parse_module(candidate)
            if parsed.status != "ok" or not extension.wanted(candidate.source):
                return parsed
            return self._builds.get(candidate, (), self._compilers)
        return self._builds.get(candidate, self.describe(task), self._compilers)

    def trace(self, task: Task, candidate: Candidate) -> Trace:
        """Return what a Python module would launch on this CUDA target; no device is used, and none need be there.

        What is wrong with the module is a problem of the trace. Raises `TaskError` where the reference fails, and
        `UsageError` for another language or target.
        """
        if candidate.language != "python" or self._target.kind != "cuda":
            raise UsageError(
                f"a {candidate.language} candidate for a {self._target.kind} device is not traced",
                hint="tracing is for Python modules on CUDA targets; the others are compiled from their launch plans",
            )
        return self._traces.get(candidate, self._problem(task), self._compilers(), lambda: self.describe(task))

    def check(self, task: Task, candidate: Candidate, budget_s: float = 20.0) -> Check:
        """Run a GPU candidate on the CPU at small shapes, in about `budget_s` seconds; see `Checks.run`."""
        return self._checks.run(task, candidate, budget_s)

    def measure(
        self,
        task: Task,
        candidate: Candidate,
        build: Build,
        against: Subject | None = None,
        beat: float | None = None,
    ) -> Measurement:
        """Check and time the candidate until it is done or can hardly reach `beat`; one at a time holds the device."""
        anchor = against.candidate.sha256 if against else "reference"
        if build.status != "ok":
            phases = {"compile": build.seconds}
            return verdicts.failure(build.status, build.log, self._target, anchor=anchor, phases=phases)
        signatures = self.describe(task)
        kernel = _kernel(candidate, build)
        other = _kernel(against.candidate, against.build) if against else None
        job = self._problem(task) | kernel | self._bounds()
        job |= {"kind": "measure", "signatures": serde.to_data(signatures), "anchor": other}
        job |= {"sighting": beat is not None}
        looks = Looks(self._target, beat)
        launched = self._target.kind == "cuda" and all(_device_only(k) for k in (kernel, other) if k)
        with self._device, alone_on(self._locks, self._target, self._visible):
            reply = self._launch(job, looks) if launched else self._worker.run(job, self._limits.measure_s, looks)
        return self._judge(reply, build, signatures, anchor)

    def _bounds(self) -> dict[str, Any]:
        return {
            "memory": self._limits.memory,
            "call_timeout_s": self._limits.call_s,
            "time_s": self._limits.time_s,
            "looks": list(self._limits.looks),
        }

    def _launch(self, job: dict[str, Any], looks: Looks) -> Reply:
        """Have the launcher measure; it is kept from one candidate to the next, and replaced once it is broken."""
        start = time.perf_counter()
        reply = None
        for _ in range(2):
            if self._launcher is None or not self._launcher.alive:
                self._drop_launcher()
                self._launcher = self._worker.open({"kind": "launcher"})
            reply = self._launcher.request(job, self._limits.measure_s, looks)
            answer = reply.answer
            if answer is None and self._worker.closed:
                raise was_closed()
            if answer is None and not reply.started_s:
                self._drop_launcher()  # it had gone before the job began: idle for long, or killed
                continue
            if answer is None or answer.get("broken"):
                self._drop_launcher()
            if answer is None or "canary" not in answer:
                waited = time.perf_counter() - start - reply.seconds
                return replace(reply, seconds=reply.seconds + waited, started_s=reply.started_s + waited)
        if reply is not None and reply.answer is None:
            raise WorkerError(
                f"the process that launches kernels on {self._target.name} does not start:\n{reply.log}",
                hint="`forewarp doctor` says more",
            )
        raise DeviceError(
            f"{self._target.name} does not give the right result for a kernel that is known to be right",
            hint="look at `nvidia-smi`; the GPU may need a reset, or other programs hold its memory",
        )

    def _drop_launcher(self) -> None:
        if self._launcher is not None:
            self._launcher.close()
            self._launcher = None

    def _judge(self, reply: Reply, build: Build, signatures: tuple[Signature, ...], anchor: str) -> Measurement:
        answer = reply.answer
        phases = {"compile": build.seconds, "spawn": reply.started_s, "total": build.seconds + reply.seconds}
        if answer is None:
            status, log = ending(reply, self._limits.measure_s)
            return verdicts.failure(status, log, self._target, anchor=anchor, phases=phases, device_s=reply.seconds)
        # What the workers took beyond the named phases is process handling: fork, cells, teardown.
        phases |= answer["phases"]
        environment = self.probe() | answer["environment"]
        log = readable("\n".join(t for t in (answer["log"], reply.log) if t))
        if answer["status"] == "anchor_wrong":
            raise UsageError(
                f"the kernel to measure against is itself incorrect: {answer['log']}",
                hint="measure it alone first, and pass a correct one",
            )
        if answer["status"] != "ok":
            # C++ runs out of memory by throwing, and an uncaught throw ends as a crash.
            status = "out_of_memory" if "std::bad_alloc" in reply.log else answer["status"]
            return verdicts.failure(
                status,
                log,
                self._target,
                anchor=anchor,
                phases=phases,
                device_s=reply.seconds,
                answer=answer,
                environment=environment,
            )
        return verdicts.measurement_of(
            answer,
            signatures,
            self._target,
            anchor=anchor,
            phases=phases,
            device_s=reply.seconds,
            log=log,
            environment=environment,
        )

    def close(self) -> None:
        """End the worker and all its children, also while other threads measure: they get a `WorkerError`."""
        self._worker.close()
        self._checks.close()
        with self._device:
            self._drop_launcher()


def _kernel(candidate: Candidate, build: Build) -> dict[str, Any]:
    """Return what a job says of a kernel."""
    return {
        "language": candidate.language,
        "source": candidate.source,
        "artefact": build.artefact,
        "manifest": manifest_of(build),
    }


def _device_only(kernel: dict[str, Any]) -> bool:
    return kernel["language"] in ("triton", "cuda") and not kernel["manifest"].get("host_code")


def _visible(index: int) -> str:
    """Return the name under which CUDA knows the `index`-th GPU that this process may use."""
    allowed = [d.strip() for d in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if d.strip()]
    return allowed[index] if index < len(allowed) else str(index)


def _answer_of(task: Task, reply: Reply) -> dict[str, Any]:
    """Return a job's answer; raises `TaskError` where the reference failed."""
    if reply.answer is not None and "error" not in reply.answer:
        return reply.answer
    why = "it did not finish in time" if reply.timed_out else reply.log
    if reply.answer:
        why = f"{reply.answer['error']}\n{reply.answer['log']}"
    raise TaskError(f"the reference of {task.name} cannot be run: {why}", hint="run the file under Python first")


def _parse_module(candidate: Candidate) -> Build:
    start = time.perf_counter()
    try:
        compile(candidate.source, "candidate.py", "exec")
    except (SyntaxError, ValueError) as e:
        return Build("compile_error", time.perf_counter() - start, f"SyntaxError: {e}")
    if not any(name in candidate.source for name in ("ModelNew", "custom_kernel")):
        raise CandidateError(
            "the module defines neither class ModelNew nor custom_kernel", hint="see docs/candidates.md, modules"
        )
    digest = hashlib.sha256(candidate.source.encode()).hexdigest()
    return Build("ok", time.perf_counter() - start, binary_sha256=digest)
