"""Inspect kernels before they run: facts of the compiled code and, on request, a check of the results on a CPU."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from forewarp.core import serde
from forewarp.core.checking import FAULTS, CheckedWorkload, Finding
from forewarp.core.errors import CandidateError, UsageError
from forewarp.core.inspection import Inspection, Launch
from forewarp.core.languages import languages_on
from forewarp.core.roofline import floor_s
from forewarp.core.untrusted_text import clip, first_error
from forewarp.core.values import Candidate, Signature, Status, Target, Task
from forewarp.gpu_runner import devices
from forewarp.gpu_runner.compilers.facts import facts
from forewarp.gpu_runner.executors.artifacts import manifest_of
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.inspection.traced import of_trace
from forewarp.tools import session as sessions
from forewarp.tools.parts import SCHEMA_VERSION, Device, Kernel, KernelId, OnStage, Part, Place, unwatched
from forewarp.tools.plan_proposal import planned_candidate
from forewarp.tools.requests import InspectRequest
from forewarp.tools.wording import counted

CHECK_S = 20.0
"""Seconds that a check without a GPU may take."""


class LaunchFacts(Part):
    """One launch and its kernel's machine code; null where a fact is known to the running program only."""

    kernel: str
    grid: tuple[int, int, int] | None
    block: tuple[int, int, int] | None
    times: int
    registers: int
    local_bytes: int = Field(description="Local memory a thread, for spills and arrays indexed at run time.")
    static_shared_bytes: int
    dynamic_shared_bytes: int
    code_bytes: int
    occupancy: float | None = Field(description="Resident warps as a share of what a multiprocessor holds.")
    blocks_per_processor: int | None
    limiter: str | None = Field(description="registers, shared memory, threads or blocks.")
    waves: float | None
    tail: float | None = Field(description="Share of the device that idles in the last wave, as a share of all waves.")
    instructions: dict[str, int] = Field(description="Machine instructions by class.")
    loop_instructions: dict[str, int] = Field(description="Those of them inside a loop.")
    widths: dict[str, int] = Field(description="Accesses by class and bits, such as global_load.128.")


class WorkloadFacts(Part):
    """One shape of the task."""

    workload: str
    bytes_moved: int = Field(description="Bytes that have to be read and written at least.")
    flops: float | None = Field(description="Counted operations; null where nothing in the reference is counted.")
    floors_us: dict[str, float] = Field(description="Least microseconds by the roofline, by target.")
    bound: str | None = Field(description="memory or arithmetic.")
    launches: list[LaunchFacts]
    calls: list[str] = Field(description="Library operators that a module runs beside its own kernels.")


class CpuCheck(Part):
    """The outcome of a run without a GPU; it says nothing of speed."""

    how: str = Field(description="CPU-interpreted (Triton) or CPU-emulated (CUDA).")
    status: str = Field(description="ok, incorrect, unsupported or failed.")
    message: str
    workloads: list[CheckedWorkload]
    findings: list[Finding]
    faults: int = Field(description="Findings that make the kernel wrong on a GPU, whatever its outputs were here.")
    seconds: float

    @property
    def sound(self) -> bool:
        """True if the check found nothing wrong, or could not judge this kernel."""
        return self.status == "unsupported" or (self.status == "ok" and not self.faults)


class KernelInspection(Part):
    """Facts of one kernel; `status` is that of compiling it."""

    path: str
    kernel: KernelId | None
    status: Status | None = Field(description="Null where the candidate could not be read.")
    how: str = Field(default="", description="How the facts were come by.")
    workloads: list[WorkloadFacts] = Field(default_factory=list[WorkloadFacts])
    problems: list[str] = Field(default_factory=list[str])
    facts: dict[str, float] = Field(default_factory=dict[str, float], description="The numbers that forecasters read.")
    check: CpuCheck | None = None
    log: str = ""
    seconds: float
    cached: bool = False

    @property
    def sound(self) -> bool:
        """True if the kernel compiles and no check found it wrong."""
        return self.status == "ok" and (self.check is None or self.check.sound)


class InspectResult(Part):
    """Facts of kernels, collected before they run."""

    summary: str
    schema_version: int = SCHEMA_VERSION
    task: str
    target: Device
    target_source: str = Field(description="Where the target's numbers are from.")
    kernels: list[KernelInspection]


@dataclass(frozen=True, slots=True)
class _Bench:
    """Data that all kernels of a request share."""

    task: Task
    executor: LocalExecutor
    place: Place
    check: bool


def inspect_kernels(
    request: InspectRequest, *, stage: OnStage = unwatched, executors: sessions.Executors | None = None
) -> InspectResult:
    """Compile each kernel for the target and collect its facts; a kernel that fails stops no other.

    Raises `UsageError` for an unknown target, and `TaskError` with the reference's own error.
    """
    target = choose_target(request.target)
    place = Place(python=request.python)
    task = sessions.load_task(
        request.task or sessions.task_of(request.kernels), place, gradients=request.gradients, size=request.size
    )
    found: list[KernelInspection] = []
    with sessions.closing_executors(executors) as kept:
        executor = kept.compiler(place, target)
        for number, kernel in enumerate(request.kernels, 1):
            stage(f"inspecting {Path(kernel.called or 'kernel').name} ({number} of {len(request.kernels)})")
            found.append(_inspect(_Bench(task, executor, place, request.check), kernel))
    return InspectResult(
        summary=_summary(found, target),
        task=task.name,
        target=Device.of(target),
        target_source=target.source,
        kernels=found,
    )


def choose_target(name: str) -> Target:
    """Return a known target by its short name, or this machine's GPU; raises `UsageError` with the names."""
    known, name = devices.known_targets(), name.lower()
    if name in known:
        return known[name]
    if name == "auto":
        return devices.detect_cuda() or known["h200"]
    if name == "cuda":
        return devices.choose("cuda")
    raise UsageError(f"target {name!r} is unknown", hint=f"use one of {', '.join(known)}, cuda or auto")


def short_name(device: str) -> str:
    """Return the short name of a known device; "" for another."""
    return next((short for short, known in devices.known_targets().items() if known.name == device), "")


def _inspect(bench: _Bench, kernel: Kernel) -> KernelInspection:
    start = time.perf_counter()
    path = kernel.called
    try:
        candidate = planned_candidate(kernel, bench.task, bench.place)
        if candidate.language not in languages_on("cuda"):
            raise CandidateError(f"a {candidate.language} kernel has no GPU code to inspect: measure it on the CPU")
    except CandidateError as e:
        return KernelInspection(path=path, kernel=None, status=None, log=str(e), seconds=time.perf_counter() - start)
    status, log, seen, cached = _seen(bench, candidate)
    signatures = {s.workload: s for s in bench.executor.describe(bench.task)}
    check = bench.executor.check(bench.task, candidate, CHECK_S) if bench.check and status == "ok" else None
    return KernelInspection(
        path=path,
        kernel=KernelId.of(candidate),
        status=status,
        how=seen.how if seen else "inspected",
        workloads=_workloads(seen, signatures) if seen else [],
        problems=list(seen.problems) if seen else [],
        facts=facts(seen) if seen else {},
        check=check and CpuCheck.of(check, faults=len(check.faults), message=clip(check.message)),
        log=clip(log),
        seconds=time.perf_counter() - start,
        cached=cached,
    )


def _seen(bench: _Bench, candidate: Candidate) -> tuple[Status, str, Inspection | None, bool]:
    executor = bench.executor
    if candidate.language == "python":
        trace = executor.trace(bench.task, candidate)
        return "ok", "", of_trace(trace, executor.describe(bench.task), executor.target), trace.cached
    build = executor.compile(bench.task, candidate)
    if build.status != "ok":
        return build.status, build.log, None, build.cached
    return "ok", build.log, serde.from_data(Inspection, manifest_of(build)["inspection"]), build.cached


def _workloads(seen: Inspection, signatures: Mapping[str, Signature]) -> list[WorkloadFacts]:
    known = devices.known_targets().items()
    return [
        WorkloadFacts.of(
            w,
            floors_us={name: floor_s(signatures[w.workload], target) * 1e6 for name, target in known},
            launches=[_launch(e) for e in w.launches],
        )
        for w in seen.workloads
    ]


def _launch(launch: Launch) -> LaunchFacts:
    code, held = launch.code, launch.occupancy
    return LaunchFacts.of(
        launch,
        kernel=code.kernel,
        registers=code.registers,
        local_bytes=code.stack_bytes,
        static_shared_bytes=code.static_shared_bytes,
        code_bytes=code.code_bytes,
        occupancy=held.share if held else None,
        blocks_per_processor=held.blocks if held else None,
        limiter=held.limiter if held else None,
        instructions=code.mix,
        loop_instructions=code.loops,
        widths=code.widths,
    )


def _summary(found: list[KernelInspection], target: Target) -> str:
    failed = [k for k in found if not k.sound]
    many = f"{len(found)} kernels" if len(found) > 1 else Path(found[0].path).name or "The kernel"
    if not failed:
        problems = sum(len(k.problems) for k in found)
        checked = [k.check for k in found if k.check is not None]
        uncoalesced = sum(f.kind == "uncoalesced" for c in checked for f in c.findings)
        seen = [f"{counted(problems, 'problem')} noted"] if problems else []
        seen += [f"{counted(uncoalesced, 'place')} with uncoalesced accesses"] if uncoalesced else []
        noted = ", ".join(seen) or "no problem seen"
        said = f", {', '.join(sorted({c.how for c in checked}))}: {_outcomes(checked)}" if checked else ""
        where = f" for {target.name}" if any(k.workloads for k in found) else ""
        return f"{many} compiles{where}, {noted}{said}.".replace("kernels compiles", "kernels compile")
    if len(found) == 1:
        return f"{many} is not sound: {_why(found[0])}" if found[0].status else f"{many}: {_why(found[0])}"
    return f"{len(failed)} of {many} {'is' if len(failed) == 1 else 'are'} not sound."


def _outcomes(checks: list[CpuCheck]) -> str:
    names = [c.status for c in checks]
    return ", ".join(f"{names.count(n)} {n}" if len(names) > 1 else n for n in dict.fromkeys(names))


def _why(kernel: KernelInspection) -> str:
    if kernel.status is None:
        return kernel.log.partition("\n")[0]
    if kernel.status != "ok":
        return f"it does not compile ({kernel.status}). {first_error(kernel.log)}".strip()
    check = kernel.check
    if check is not None and check.status == "ok":
        first = next(f for f in check.findings if f.kind in FAULTS)
        return f"{check.how}, the outputs are right, but {first.kind} at {first.where}: {first.message}"
    return f"{check.how}, {check.status}. {check.message.partition(chr(10))[0]}".strip() if check else ""
