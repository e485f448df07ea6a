"""Compile and measure on this machine's GPU or CPU, each candidate in processes of its own."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.metadata
import json
import math
import os
import platform
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from forewarp.core import serde
from forewarp.core.checking import Check, CheckedHow
from forewarp.core.errors import CandidateError, TaskError, UsageError, WorkerError, tells_of_memory
from forewarp.core.protocols import Subject
from forewarp.core.validation import WorkloadReport
from forewarp.core.values import Build, Candidate, Evidence, Language, Measurement, Signature, Target, Task
from forewarp.gpu_runner.cache import default_cache
from forewarp.gpu_runner.compilers.extension import settings
from forewarp.gpu_runner.devices import known_targets
from forewarp.gpu_runner.executors import verdicts
from forewarp.gpu_runner.executors.artifacts import Builds, cached, key_of, manifest_of
from forewarp.gpu_runner.executors.client import OnLook, Reply, WorkerClient
from forewarp.gpu_runner.executors.launcher import LauncherClient, LaunchOutcome
from forewarp.gpu_runner.executors.traces import Traces
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.gpu_runner.formats import plan as plans
from forewarp.gpu_runner.statistics import LOOKS
from forewarp.gpu_runner.worker import memory
from forewarp.gpu_runner.worker.channel import KILLED, MACHINE
from forewarp.gpu_runner.worker.environment import READABLE
from forewarp.gpu_runner.worker.requests import (
    BuiltKernel,
    MeasureJob,
    ProbeJob,
    SeedsJob,
    TaskFailure,
    TaskJob,
    ValidateJob,
)
from forewarp.inspection import traced
from forewarp.inspection.jobs import CheckJob, DescribeJob
from forewarp.inspection.tracing.values import Trace

SIGNATURES_VERSION = "6"
SEEDS_VERSION = "5"
"""Rises whenever the same reference gives other seeds."""
_CHECKED_HOW: dict[Language, CheckedHow] = {
    "triton": "CPU-interpreted",
    "python": "CPU-interpreted",
    "cuda": "CPU-emulated",
}
_CHECK_START_S = 30.0
"""For starting a process and running the reference, beyond the time that a check itself may take."""
OPENED_AHEAD, LARGE_BYTES = 3, 64 << 30
"""Processes that open a GPU of so much memory for tasks to come; each of them takes about 0.5 GB of it."""
_REFUSALS = (
    *("PermissionError", "Permission denied", "No such file or directory"),
    *("Network is unreachable", "Operation not permitted"),
)
"""What confined code hears of what it may not do."""

_INDUCTOR = re.compile(
    r"\btorch\.compile\b|\bself\.compile\(|\btorch\._(dynamo|inductor)\b|\bfrom torch import .*\bcompile\b"
)
"""Text of a module that compiles itself when it is called."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one candidate, per workload. `time_s` is the time spent on timing; memory is in bytes.

    `inductor_s` is what a module that uses `torch.compile` may take longer, `trace_s` bounds the processor time of
    tracing. `looks` are the numbers of blocks after which timing may end; with `controls`, the anchor is timed in both
    roles, too. `memory_share` is the part of the device's memory that a measurement may reckon with.
    """

    compile_s: float = 60.0
    measure_s: float = 120.0
    trace_s: float = 30.0
    call_s: float = 10.0
    inductor_s: float = 120.0
    memory: int = 8 << 30
    time_s: float = 0.8
    looks: tuple[int, ...] = LOOKS
    controls: bool = True
    memory_share: float = 1.0


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
        turn: OnLook | None = None,
    ) -> None:
        """`python` is the interpreter whose torch and Triton are used, `cache` where compiled candidates are kept.

        `index` chooses among several GPUs. With `turn`, another executor measures at the same time, and takes turns;
        one process then serves all tasks on a GPU until `end_process`.
        """
        self._target, self._turn = target, turn
        self._limits, self._end = limits or Limits(), math.inf
        self._python, self._cache = python, cache or default_cache()
        self._visible = visible_device(index) if target.kind == "cuda" else ""
        # For the CPU device none is visible: once the server had counted GPUs, torch.compile failed in its children.
        environment = {"CUDA_VISIBLE_DEVICES": self._visible}
        with contextlib.suppress(OSError):
            if target.kind == "cpu":
                inductor = self._cache / "inductor"  # the server's; children have others
                inductor.mkdir(parents=True, exist_ok=True)
                environment["TORCHINDUCTOR_CACHE_DIR"] = str(inductor)
        # Where a kernel lies in memory is its server's doing: two that are compared must not have that in common.
        self._worker = WorkerClient(python, environment, cpu_only=target.kind == "cpu", own=turn is not None)
        # Triton decides when it is imported whether to compile or to interpret, its own functions included.
        self._checker = WorkerClient(python, {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""})
        most = self._limits
        self._builds = Builds(self._worker, target, self._cache, compile_s=most.compile_s, memory=most.memory)
        self._traces = Traces(self._worker, target, self._cache, limit_s=most.trace_s, memory=most.memory)
        self._device, self._locks = threading.Lock(), default_cache() / "locks"
        self._describing = threading.Lock()
        self._signatures: dict[str, tuple[Signature, ...]] = {}
        self._versions: dict[str, str] = {}
        self._launcher = LauncherClient(self._worker, target, self._builds.folder, of_all_tasks=turn is not None)

    @property
    def target(self) -> Target:
        return self._target

    @property
    def devices(self) -> int:
        return 1

    def candidates(self, task: Task) -> None:
        """None: any candidate can be compiled."""

    def probe(self) -> dict[str, str]:
        """Return the versions that the worker's Python has; raises `DeviceError` where it has no torch."""
        if not self._versions:
            reply = self._worker.run(ProbeJob(), 60.0)
            if reply.answer is None:
                raise WorkerError(f"the worker could not be probed:\n{reply.log}")
            self._versions = cast("dict[str, str]", reply.answer)
        return self._versions

    def describe(self, task: Task) -> tuple[Signature, ...]:
        with self._describing:
            if task.sha256 not in self._signatures:
                # To describe a task, torch has to start and run its reference.
                key = key_of(SIGNATURES_VERSION, task.sha256, self._target.kind, self.toolchain_versions())
                self._signatures[task.sha256] = cached(
                    self._cache / "signatures" / f"{key}.json",
                    lambda text: tuple(serde.from_data(Signature, s) for s in json.loads(text)),
                    lambda: json.dumps(self._describe(task)),
                )
            return self._signatures[task.sha256]

    def toolchain_versions(self) -> dict[str, str]:
        if self._python != sys.executable:
            return dict(self.probe())
        found = {"python": platform.python_version()}
        for name in ("torch", "triton", "nvidia-cuda-nvrtc"):
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                found[name] = importlib.metadata.version(name)
        return found

    def _describe(self, task: Task) -> list[Any]:
        job = DescribeJob(task=task.without_seeds(), target=self._target)
        limit_s = self._bounded(self._limits.measure_s)
        return _answer_of(task, self._worker.run(job, limit_s), limit_s)["signatures"]

    def validate(self, task: Task, started: Callable[[str], None] = lambda _: None) -> tuple[WorkloadReport, ...]:
        """Put null candidates to each workload of a task; `started` gets its name before each. Raises `TaskError`."""
        reports: list[WorkloadReport] = []
        signatures = self.describe(task)
        if refused := self._too_large(signatures, "validated"):
            raise TaskError(f"{task.name} cannot be validated: {refused}")
        for workload, signature in zip(task.workloads[self._target.kind], signatures, strict=True):
            started(workload.name)
            alone = replace(task.without_seeds(), workloads={self._target.kind: (workload,)})
            job = ValidateJob(task=alone, target=self._target, signatures=(signature,))
            answer = self.run_task(job, self._limits.measure_s)
            reports.append(serde.from_data(WorkloadReport, answer["workloads"][0]))
        return tuple(reports)

    def run_task(self, job: TaskJob, limit_s: float, late: str = "") -> dict[str, Any]:
        """Return a job's answer, holding the device; raises `TaskError`, with the hint `late` after `limit_s`."""
        with self._device, self.held():
            limit_s = self._bounded(limit_s)
            reply = self._worker.run(job, limit_s)
        return _answer_of(job.task, reply, limit_s, late)

    def compile(self, task: Task, candidate: Candidate) -> Build:
        """Compile into the cache; of a module, the torch extensions that it builds. Triton compiles when it runs."""
        return self._compiled(task, candidate, None)

    def compile_within(self, task: Task, candidate: Candidate, cpu_s: int) -> Build:
        """Compile as `compile`, a kernel in at most so many seconds of processor time; a module has all of its time."""
        return self._compiled(task, candidate, cpu_s)

    def _compiled(self, task: Task, candidate: Candidate, cpu_s: int | None) -> Build:
        candidate = candidates.with_chosen(candidate)
        if candidate.language == "python":
            parsed = _parse_module(candidate)
            if parsed.status != "ok" or not settings.wanted(candidate.source):
                return parsed
            return self._builds.get(candidate, (), self.toolchain_versions)
        return self._builds.get(candidate, self.describe(task), self.toolchain_versions, cpu_s)

    def make_seeds(self, task: Task) -> tuple[Candidate, ...]:
        """Return modules that torch's Inductor makes of a task's reference, from the cache where they are there.

        The first holds generated code, unless that does not fit into a module; the last compiles when it is called.
        Raises `TaskError` where the reference fails, or Inductor on it.
        """
        key = key_of(SEEDS_VERSION, task.sha256, serde.to_data(self._target), self.toolchain_versions())
        return cached(
            self._cache / "seeds" / f"{key}.json",
            lambda text: tuple(serde.from_data(Candidate, c) for c in json.loads(text)),
            lambda: json.dumps(self._make_seeds(task)),
        )

    def _make_seeds(self, task: Task) -> list[Any]:
        self._refuse_large(task, self.describe(task), "cells")
        limit_s = self._limits.inductor_s + self._limits.measure_s
        job = SeedsJob(task=task.without_seeds(), target=self._target, inductor=True)
        self._worker.run(ProbeJob(inductor=True), limit_s)  # imports hold up nobody who waits for the device
        with contextlib.ExitStack() as stack:
            if self._target.kind == "cuda":  # the code is run there, so that Inductor chooses blocks
                stack.enter_context(self._device)
                stack.enter_context(self.held())
            reply = self._worker.run(job, limit_s)
        answer = reply.answer or serde.to_data(TaskFailure(reply.ending(limit_s)[1]))
        if "error" not in answer or answer["status"] in ("reference_failed", MACHINE):
            return _answer_of(task, reply, limit_s)["candidates"]
        log = str(answer.get("log") or reply.log).strip()
        last_line = log.splitlines()[-1] if log else ""
        why = answer["error"] if last_line in answer["error"] else f"{answer['error']}: {last_line}"
        raise TaskError(
            f"there is no seed kernel for {task.name}, and torch's Inductor cannot compile its reference: {why}",
            hint="Inductor needs a C++ compiler (g++, or what CXX names) on a CPU, and Triton on a GPU; or pass one "
            "with --seed-kernel FILE, or --model anthropic:NAME to have a language model write them",
        )

    def trace(self, task: Task, candidate: Candidate) -> Trace:
        """Return what a Python module would launch on this CUDA target; no device is used, and none need be there.

        Raises `TaskError` where the reference fails, and `UsageError` for another language or target.
        """
        if candidate.language != "python" or self._target.kind != "cuda":
            raise UsageError(
                f"a {candidate.language} candidate for a {self._target.kind} device is not traced",
                hint="tracing is for Python modules on CUDA targets; the others are compiled from their launch plans",
            )
        return self._traces.get(
            candidates.with_chosen(candidate),
            task.without_seeds(),
            self.toolchain_versions(),
            lambda: self.describe(task),
        )

    def evidence(self, task: Task, candidate: Candidate) -> Evidence | None:
        """Return what a Python module's trace for a CUDA target tells, or why there is none; None of others."""
        if candidate.language != "python" or self._target.kind != "cuda":
            return None
        try:
            trace = self.trace(task, candidate)
            return traced.evidence(trace, lambda: self.describe(task), self._target)
        except TaskError as e:
            return Evidence(problems=(f"not traced, so nothing is known of its kernels: {e.message}",))

    def check(self, task: Task, candidate: Candidate, budget_s: float = 20.0) -> Check:
        """Run a candidate on the CPU in about `budget_s` seconds to find what is wrong with it.

        Triton runs in its interpreter, CUDA in an emulator, at small shapes. Raises `CandidateError`.
        """
        if candidate.language not in _CHECKED_HOW:
            raise CandidateError(f"a {candidate.language} kernel is not checked apart: measure it on the CPU")
        if candidate.language != "python":
            plans.parse(candidate)
        job = CheckJob(
            how=_CHECKED_HOW[candidate.language],
            task=task.without_seeds(),
            target=self._target if self._target.kind == "cuda" else known_targets()["h200"],
            candidate=candidates.with_chosen(candidate),
            budget_s=budget_s,
            memory=self._limits.memory,
            cache=str(self._cache / "emulator"),
        )
        limit_s = 1.5 * budget_s + _CHECK_START_S
        reply = self._checker.run(job, limit_s)
        if reply.answer is not None and "error" not in reply.answer:
            return serde.from_data(Check, reply.answer)
        log = f"{reply.answer['error']}\n{reply.log}".strip() if reply.answer else reply.ending(limit_s)[1]
        return Check(job.how, "failed", (), (), reply.seconds, f"the check itself ended early: {log}")

    def measure(
        self,
        task: Task,
        candidate: Candidate,
        build: Build,
        against: Subject | None = None,
        beat: float | None = None,
        *,
        checked: bool = False,
    ) -> Measurement:
        """Check and time the candidate until it is done or can hardly reach `beat`; one at a time holds the device.

        One that was `checked` is compared again where it is timed, but not on perturbed inputs.
        """
        anchor = against.candidate.sha256 if against else "reference"
        if build.status != "ok":
            phases = {"compile": build.seconds}
            return verdicts.measurement_without_times(
                build.status, build.log, self._target, anchor=anchor, phases=phases
            )
        signatures = self.describe(task)
        kernel = _kernel(candidate, build)
        other = _kernel(against.candidate, against.build) if against else None
        launched = self._target.kind == "cuda" and not any(k.has_host_code for k in (kernel, other) if k)
        self._refuse_large(task, signatures, "launched" if launched else "cells")
        job, limit_s = self._measure_job(task, signatures, kernel, other, launched=launched)
        job = replace(job, sighting=beat is not None, checked=checked)
        looks: OnLook = self._turn or verdicts.Looks(self._target, beat)
        with self._device, contextlib.nullcontext() if self._turn else self.held():
            if launched:
                done = self._launcher.measure(job, task.sha256, looks, limit_s)
                if self._turn is None:  # what opens the device would disturb the other's timing
                    self._launcher.open_ahead()
            else:
                looks(None)
                done = LaunchOutcome(self._worker.run(job, limit_s, looks), "", "")
        if done.reply.timed_out and time.monotonic() >= self._end:
            raise TaskError(f"the deadline came before {task.name} was measured", hint="give it longer with --deadline")
        if done.reply.answer is None:
            verdicts.excuse(done.reply, limit_s, task.name, launched=launched)
        environment = self.probe() if done.reply.answer is not None else {}
        measured = verdicts.measurement_of(
            *(done.reply, task, self._target, signatures, build),
            anchor=anchor,
            limit_s=limit_s,
            environment=environment,
        )
        return replace(
            measured,
            lifting=done.lifting,
            phases={**measured.phases, **done.phases},
            environment={**measured.environment, **({"anchor": done.anchor} if done.anchor else {})},
        )

    def _measure_job(
        self,
        task: Task,
        signatures: tuple[Signature, ...],
        kernel: BuiltKernel,
        anchor: BuiltKernel | None,
        *,
        launched: bool,
    ) -> tuple[MeasureJob, float]:
        """Return the job of a measurement, and the seconds that it may take."""
        inductor = any(_uses_inductor(k) for k in (kernel, anchor) if k)
        inductor_s = self._limits.inductor_s if inductor else 0.0
        job = MeasureJob(
            task=task.without_seeds(),
            target=self._target,
            signatures=signatures,
            inductor=inductor,
            candidate=kernel,
            anchor=anchor,
            memory=self._limits.memory,
            call_timeout_s=self._limits.call_s + inductor_s,
            time_s=self._limits.time_s,
            looks=self._limits.looks,
            controls=self._limits.controls,
            cell_plans=self._plans(signatures, "cells"),  # also for a module that turns out not to be lifted
            launch_plans=self._plans(signatures, "launched") if launched else (),
        )
        return job, self._bounded(self._limits.measure_s + inductor_s * len(signatures))

    def open(self, task: Task) -> None:
        """Have a process open the GPU for a task, and wait for it; on a large one, more for the next tasks."""
        if self._target.kind == "cuda":
            ahead = OPENED_AHEAD if (self._target.memory_bytes or 0) >= LARGE_BYTES else 0
            with self._device:
                self._launcher.open(task.sha256, self._limits.measure_s, ahead)

    def end_process(self) -> None:
        with self._device:
            self._launcher.end()

    @contextlib.contextmanager
    def until(self, end: float) -> Generator[None]:
        """Let what runs a task's code take no longer than until `end`, by `time.monotonic`, and raise `TaskError`."""
        self._end = end
        try:
            yield
        finally:
            self._end = math.inf

    def _bounded(self, limit_s: float) -> float:
        return max(0.0, min(limit_s, self._end - time.monotonic()))

    def held(self) -> contextlib.AbstractContextManager[None]:
        return exclusive_device(self._locks, self._target, self._visible)

    def _capacity(self) -> int | None:
        """Return the bytes that a workload may take; None where that is not known."""
        most = memory.host_available() if self._target.kind == "cpu" else self._target.memory_bytes
        return most and int(self._limits.memory_share * most)

    def _plans(self, signatures: tuple[Signature, ...], how: memory.How) -> tuple[memory.Plan, ...]:
        capacity = self._capacity()
        return tuple(memory.plan(s, how, self._target.kind, capacity) for s in signatures)

    def _refuse_large(self, task: Task, signatures: tuple[Signature, ...], how: memory.How) -> None:
        if refused := self._too_large(signatures, how):
            raise TaskError(f"{task.name} cannot be measured, whatever the candidate: {refused}")

    def _too_large(self, signatures: tuple[Signature, ...], how: memory.How) -> str:
        """Say which workload does not fit, before anything is allocated; "" where all do."""
        name = "this machine" if self._target.kind == "cpu" else self._target.name
        found = (memory.refusal(s, how, self._target.kind, self._capacity(), name) for s in signatures)
        return next((refused for refused in found if refused), "")

    def close(self) -> None:
        """End the worker and all its children, also while other threads measure: they get a `WorkerError`."""
        self._worker.close()
        self._checker.close()
        with self._device:
            self._launcher.close()


def _kernel(candidate: Candidate, build: Build) -> BuiltKernel:
    run = candidates.with_chosen(candidate)
    return BuiltKernel(run.language, run.source, build.artefact, manifest_of(build))


def _uses_inductor(kernel: BuiltKernel) -> bool:
    return kernel.language == "python" and _INDUCTOR.search(kernel.source) is not None


def visible_device(index: int) -> str:
    """Return the name under which CUDA knows the `index`-th GPU that this process may use."""
    allowed = [d.strip() for d in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if d.strip()]
    return allowed[index] if index < len(allowed) else str(index)


def _answer_of(task: Task, reply: Reply, limit_s: float, late: str = "") -> dict[str, Any]:
    """Return a job's answer; raises `TaskError` where the reference failed, `WorkerError` where the machine did."""
    if reply.answer is not None and "error" not in reply.answer:
        return reply.answer
    failed = reply.read(TaskFailure)
    if failed is None and reply.exit_status == -signal.SIGKILL and not reply.timed_out:
        failed = TaskFailure(KILLED, status=MACHINE)
    if failed is None:
        failed = TaskFailure(reply.ending(limit_s)[1])
    elif failed.status == MACHINE:
        raise verdicts.machine_failed(failed.error)
    else:
        failed = replace(failed, log=failed.log or reply.log)
    why, hint = f"{failed.error}\n{failed.log}".strip(), failed.hint or _run_alone(task)
    hint = late if late and reply.timed_out else hint
    if "/multiprocessing/" in why:
        hint = "a task's code has no memory to share with processes of its own: have it do without them"
    elif failed.status == "out_of_memory" or tells_of_memory(why):
        hint = "choose a smaller shape by --size, or run on a machine with more memory"
    elif any(sign in why for sign in _REFUSALS):
        hint = (
            "a task's code runs without network, and no files exist for it but its own and its tools': name folders "
            f"that it has to read in {READABLE}, separated by colons; relative paths begin in the first of them "
            f"({READABLE}=. is the folder you are in)"
        )
    raise TaskError(f"the reference of {task.name} cannot be {failed.doing}: {why}", hint=hint)


def _run_alone(task: Task) -> str:
    sizes = next((w.constants for listed in task.workloads.values() for w in listed if w.constants), {})
    chosen = ", ".join(f"{name} = {value!r}" for name, value in sizes.items())
    return f"run the file under Python first{f', with {chosen}' if chosen else ''}"


def _parse_module(candidate: Candidate) -> Build:
    start = time.perf_counter()
    try:
        compile(candidate.source, "candidate.py", "exec")
    except (SyntaxError, ValueError) as e:
        return Build("compile_error", time.perf_counter() - start, f"SyntaxError: {e}")
    if not any(name in candidate.source for name in ("ModelNew", "custom_kernel")):
        raise CandidateError(
            "the module defines neither class ModelNew nor custom_kernel", hint="see docs/tasks.md, modules"
        )
    digest = hashlib.sha256(candidate.source.encode()).hexdigest()
    return Build("ok", time.perf_counter() - start, binary_sha256=digest)


_BOOT = Path("/proc/sys/kernel/random/boot_id")


@contextlib.contextmanager
def exclusive_device(folder: Path, target: Target, visible: str, machine: str = "") -> Generator[None]:
    """Hold a device against other processes: two timings at once would both be wrong. Waits as long as it takes.

    Processes agree by their locks in `folder`, which machines with one home directory share: `machine` tells them
    apart. GPUs of a machine are held side by side, the CPU device only while none of them is: it feeds them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    where = machine or _this_machine()
    with contextlib.ExitStack() as held:
        held.enter_context(_locked(folder, f"{where} {target.kind} {target.name} {visible}"))
        # Nobody overtakes: GPUs that take turns would keep the CPU device out for ever.
        with _locked(folder, f"{where} next"):
            held.enter_context(_locked(folder, f"{where} processors", shared=target.kind != "cpu"))
        yield


@contextlib.contextmanager
def _locked(folder: Path, name: str, *, shared: bool = False) -> Generator[None]:
    lock = folder / hashlib.sha256(name.encode()).hexdigest()[:16]
    try:
        handle = lock.open("w")
    except OSError as e:
        raise WorkerError(
            f"the device cannot be held against other processes: {lock}: {e.strerror}",
            hint="remove the file where it is another user's, as after sudo, or set FOREWARP_CACHE to another folder",
        ) from e
    with handle:
        fcntl.flock(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield


def _this_machine() -> str:
    """Return what tells this machine from others, also where images and containers give them one name."""
    with contextlib.suppress(OSError):
        return _BOOT.read_text().strip()
    return platform.node()
