"""Lock of kernels, to be committed: what each compiles to, how fast it was found, and what its outputs must keep."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

import forewarp
from forewarp.core.errors import CandidateError, UsageError
from forewarp.core.files import write_whole, writing
from forewarp.core.languages import languages_on
from forewarp.core.scratch import temporary_folder
from forewarp.core.values import DEFAULT_TOLERANCES, Candidate, Language, Task, Tolerance
from forewarp.gpu_runner import devices
from forewarp.tools import session as sessions
from forewarp.tools import wording
from forewarp.tools.forecast_kernel import forecast_kernel
from forewarp.tools.inspect_kernel import KernelInspection, LaunchFacts, inspect_kernels
from forewarp.tools.measure_kernel import measure_kernel
from forewarp.tools.measured import MeasureResult, Micros
from forewarp.tools.parts import SCHEMA_VERSION, Interval, Kernel, OnStage, Part, Place, unwatched
from forewarp.tools.plan_proposal import planned_candidate
from forewarp.tools.requests import ForecastRequest, GateLockRequest, InspectRequest, MeasureRequest
from forewarp.tools.session import Executors

MAX_BYTES = 32 << 20
VERSIONS = ("python", "torch", "triton", "cuda", "driver")


class LockedOutput(Part):
    """Tolerance of one output: rtol of each element plus atol of the output's root mean square."""

    dtype: str
    rtol: float
    atol: float


class LockedLaunch(Part):
    """Machine code of one launch on one shape."""

    workload: str
    kernel: str
    registers: int
    local_bytes: int
    shared_bytes: int
    occupancy: float | None
    instructions: dict[str, int]

    @classmethod
    def seen(cls, workload: str, launch: LaunchFacts) -> LockedLaunch:
        shared = launch.static_shared_bytes + launch.dynamic_shared_bytes
        return cls.of(launch, workload=workload, shared_bytes=shared)


class LockedForecast(Part):
    """Forecast of the speed-up over the reference, and the forewarp that made it."""

    median: Interval
    forewarp: str


class LockedShape(Part):
    """One shape as it was measured."""

    name: str
    kernel_us: Micros
    speedup: Interval
    session_sd: float = Field(default=0.0, description="Spread of equal kernels between sessions, of log-ratios.")


class LockedMeasurement(Part):
    """Times on one device."""

    anchor: str = Field(description='"reference", or the sha256 of the kernel that it was timed against.')
    speedup: Interval
    shapes: list[LockedShape]
    versions: dict[str, str] = Field(description="Of forewarp, Python, torch, Triton and the driver.")
    date: str
    other_processors: float | None = Field(
        default=None, description="Processors busy with something else meanwhile; null of a GPU."
    )


class LockedKernel(Part):
    """One kernel; paths are relative to the lock's folder, `compiled` and `forecasts` are by target."""

    path: str
    tunables: dict[str, int]
    language: Language
    sha256: str = Field(description="Identity: language, source and tunables.")
    task: str = Field(description="Bundled task, or path.")
    task_sha256: str | None = None
    tolerance: LockedOutput | None = Field(default=None, description="The task's own; null where the dtype decides.")
    outputs: list[LockedOutput] = Field(default_factory=list[LockedOutput])
    against: str | None = Field(default=None, description="Kernel that it is timed against, instead of the reference.")
    compiled: dict[str, list[LockedLaunch]] = Field(default_factory=dict[str, list[LockedLaunch]])
    forecasts: dict[str, LockedForecast] = Field(default_factory=dict[str, LockedForecast])
    measured: dict[str, LockedMeasurement] = Field(
        default_factory=dict[str, LockedMeasurement], description="By the device's name."
    )

    @property
    def key(self) -> tuple[str, str, str]:
        """Identity of the entry: where the kernel stands, and what it is for."""
        return self.path, json.dumps(self.tunables, sort_keys=True), self.task


class GateLock(Part):
    """A file of locked kernels."""

    schema_version: int = SCHEMA_VERSION
    kernels: list[LockedKernel]


class LockResult(Part):
    """Result of locking kernels."""

    summary: str
    schema_version: int = SCHEMA_VERSION
    lock: str = Field(description="The file.")
    kernels: list[LockedKernel] = Field(description="Those that were locked now.")
    problems: list[str] = Field(description="Kernels that were not locked, and why.")
    notes: list[str] = Field(description="What the lock does not know of a kernel, and why.")
    measurements: int
    device_s: float


def read_lock(path: Path) -> GateLock:
    """Read a lock; raises `UsageError` where there is none, or something else."""
    hint = "write one with `forewarp gate lock FILE…`"
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(f"{path} is no lock of kernels: it is larger than {MAX_BYTES >> 20} MiB", hint=hint)
        lock = GateLock.model_validate_json(path.read_bytes())
    except OSError as e:
        raise UsageError(f"the lock {path} cannot be read: {e.strerror}", hint=hint) from None
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(map(str, first["loc"])) or "it"
        raise UsageError(f"{path} is no lock of kernels: {where}: {first['msg']}", hint=hint) from None
    if lock.schema_version != SCHEMA_VERSION:
        raise UsageError(f"{path} has version {lock.schema_version} of the format, not {SCHEMA_VERSION}", hint=hint)
    return lock


def files_of(lock: GateLock) -> list[str]:
    """Return the files that a lock names, relative to its folder; bundled tasks are none."""
    bundled = sessions.bundled_tasks()
    return [
        name
        for kernel in lock.kernels
        for name in (kernel.path, kernel.against, kernel.task)
        if name and name not in bundled
    ]


def write_lock(path: Path, kernels: Sequence[LockedKernel]) -> None:
    """Write kernels in one order and form, so that equal locks are equal files; raises `UsageError`."""
    lock = GateLock(kernels=sorted(kernels, key=lambda k: k.key))
    with writing(path, "pass another file with --out"):
        write_whole(path, json.dumps(lock.model_dump(mode="json"), indent=1, sort_keys=True) + "\n")


def lock_kernels(
    request: GateLockRequest, *, stage: OnStage = unwatched, executors: Executors | None = None
) -> LockResult:
    """Compile, forecast and measure kernels, and write what was found into the lock, beside what it held before.

    A kernel that does not compile, or was found wrong, is not locked. Of a kernel whose source has not changed, what
    the lock knew of other targets and devices stays.
    """
    path = Path(request.out).expanduser().absolute()
    before = {k.key: k for k in read_lock(path).kernels} if path.exists() else {}
    if request.place.device == "replay":
        raise UsageError("a lock holds what was measured, not looked up", hint="leave --device replay out")
    request = request.model_copy(update={"task": request.task or sessions.task_of(request.kernels)})
    locked: list[LockedKernel] = []
    problems: list[str] = []
    notes: list[str] = []
    measured: list[MeasureResult] = []
    with sessions.closing_executors(executors) as kept:
        about = _about_task(request, path.parent, kept)
        for number, kernel in enumerate(request.kernels, 1):
            stage(f"locking {kernel.path} ({number} of {len(request.kernels)})")
            try:
                made = _locked(request, kernel, about, path.parent, kept, notes, measured)
                locked.append(_with_past(made, before.get(made.key)))
            except CandidateError as e:
                problems.append(f"{kernel.path}: {e}")
    write_lock(path, list((before | {k.key: k for k in locked}).values()))
    said = f"{len(locked)} of {wording.counted(len(request.kernels), 'kernel')} locked in {path.name}"
    return LockResult(
        summary=f"{said}, {sum(bool(k.measured) for k in locked)} with times.",
        lock=str(path),
        kernels=locked,
        problems=problems,
        notes=notes,
        measurements=len(measured),
        device_s=sum(m.cost.device_s or 0.0 for m in measured),
    )


def _about_task(request: GateLockRequest, root: Path, executors: Executors) -> dict[str, Any]:
    """Return the fields of locked kernels that are about their task; runs its reference, for the outputs' dtypes."""
    name, place = request.task, request.place
    if not isinstance(name, str):
        raise UsageError("a lock names its tasks, and this one is no file", hint="pass a bundled name or a path")
    task = sessions.load_task(name, place)
    own, outputs = task.tolerance, list[LockedOutput]()
    if task.format != "gpumode":  # which checks its outputs itself
        for output in executors.get(place, task).describe(task)[0].outputs:
            if tolerance := own or DEFAULT_TOLERANCES.get(output.dtype):
                outputs.append(LockedOutput.of(tolerance, dtype=output.dtype))
    return {
        "task": name if name in sessions.bundled_tasks() else _relative(name, root),
        "task_sha256": task.sha256,
        "tolerance": LockedOutput.of(own, dtype="") if own else None,
        "outputs": outputs,
    }


def _locked(
    request: GateLockRequest,
    kernel: Kernel,
    about: Mapping[str, Any],
    root: Path,
    executors: Executors,
    notes: list[str],
    measured: list[MeasureResult],
) -> LockedKernel:
    """Return what is found of a kernel; raises `CandidateError` where it does not compile, or is wrong.

    Adds to `notes` what is not known of it, and to `measured` its measurement, if one is made.
    """
    assert request.task is not None  # `lock_kernels` has filled it in
    candidate = planned_candidate(kernel, request.task, request.place, executors)
    against = request.against.path if request.against else None
    found = LockedKernel.of(
        candidate,
        path=_relative(kernel.path or "", root),
        tunables=dict(candidate.tunables),
        against=_relative(against, root) if against else None,
        **about,
    )
    python, files = request.place.python, KernelAtHand(found, root, executors)
    for target in (t.lower() for t in request.targets or [_default_target()]):
        seen = files.inspect(target, python)
        if seen is not None and seen.status != "ok":
            raise CandidateError(f"it does not compile for {target}: {seen.log}")
        if seen is not None:
            found.compiled[target] = launches_of(seen)
            if forecast := files.forecast(target, python):
                found.forecasts[target] = forecast
    kind = sessions.target_of(request.place).kind if request.measure else "none"
    if found.language not in (languages_on(kind) if kind != "none" else ()):
        why = f"it runs on another device than {kind}" if request.measure else "as asked"
        notes.append(f"{found.path} was not measured: {why}")
        return found
    result = files.measure(request.place)
    measured.append(result)
    if result.trusted and result.speedup is not None:
        found.measured[result.device.name] = locked_measurement(result, request.place)
    elif result.status == "ok" or (found.language == "python" and kind == "cpu"):  # a module may need a GPU
        notes.append(f"{found.path} has no times: {result.summary}")
    else:
        raise CandidateError(result.summary)
    return found


def _default_target() -> str:
    here = devices.detect_cuda()
    return next((n for n, t in devices.known_targets().items() if here and t.name == here.name), "h200")


def _with_past(kernel: LockedKernel, past: LockedKernel | None) -> LockedKernel:
    """Add what was known of other targets and devices, if kernel and task are still the same."""
    if past is None or (past.sha256, past.task_sha256) != (kernel.sha256, kernel.task_sha256):
        return kernel
    merged = {name: getattr(past, name) | getattr(kernel, name) for name in ("compiled", "forecasts", "measured")}
    return kernel.model_copy(update=merged)


def _relative(path: str, root: Path) -> str:
    """Return a path relative to the lock's folder, with slashes on every system."""
    return Path(os.path.relpath(Path(path).expanduser().absolute(), root)).as_posix()


class KernelAtHand:
    """A locked kernel with its files as they are now, each read once; paths are relative to `root`."""

    def __init__(self, locked: LockedKernel, root: Path, executors: Executors) -> None:
        self.locked, self._root, self._executors = locked, root, executors
        self._kernel = Kernel(path=str(root / locked.path), tunables=locked.tunables)

    @cached_property
    def candidate(self) -> Candidate:
        """The kernel; raises `CandidateError`."""
        return sessions.choose_candidate(self._kernel)

    @cached_property
    def task(self) -> Task:
        """The kernel's task, to be judged by the tolerance that was locked; raises `TaskError`."""
        locked, name = self.locked, self.locked.task
        path = name if name in sessions.bundled_tasks() else str(self._root / name)
        task = sessions.load_task(path, Place())
        own = locked.tolerance and Tolerance(locked.tolerance.rtol, locked.tolerance.atol)
        return task if task.tolerance == own else replace(task, tolerance=own)

    def inspect(self, target: str, python: str | None, *, check: bool = False) -> KernelInspection | None:
        """Return what it compiles to for a target, and with `check` what its outputs are on the CPU; None for C++.

        Raises `UsageError` for an unknown target, `TaskError`, `DeviceError` and `WorkerError`.
        """
        if self.locked.language == "cpp":
            return None
        request = InspectRequest(kernels=[self._kernel], target=target, python=python)
        request = request.model_copy(update={"task": self.task, "check": check})
        return inspect_kernels(request, executors=self._executors).kernels[0]

    def forecast(self, target: str, python: str | None) -> LockedForecast | None:
        """Forecast it without the archive, whose measurements would move forecasts; None where it cannot be."""
        if self.locked.language == "cpp":
            return None
        with temporary_folder() as empty:
            place = Place(python=python, archive=str(empty / "archive.db"))
            request = ForecastRequest(task=self.task, kernels=[self._kernel], target=target, place=place)
            try:
                made = forecast_kernel(request, executors=self._executors).forecast
            except UsageError:  # what is wrong is said by the inspection
                return None
        return made and LockedForecast(median=made.median, forewarp=forewarp.__version__)

    def measure(self, place: Place) -> MeasureResult:
        """Measure it against its task's reference, or the kernel that it is locked against."""
        against = Kernel(path=str(self._root / self.locked.against)) if self.locked.against else None
        request = MeasureRequest(task=self.task, kernel=self._kernel, against=against, place=place)
        return measure_kernel(request, executors=self._executors)


def launches_of(seen: KernelInspection) -> list[LockedLaunch]:
    return [LockedLaunch.seen(w.workload, launch) for w in seen.workloads for launch in w.launches]


def locked_measurement(result: MeasureResult, place: Place) -> LockedMeasurement:
    """Return what a lock keeps of a trusted measurement, which the place's archive has."""
    with sessions.open_archive(place) as archive:
        recorded = archive.measurement(result.measurement_id or 0, whole=False).measurement
    assert result.speedup is not None
    assert recorded is not None
    spreads = {t.workload: t.session_sd for t in recorded.workloads}
    versions = {name: recorded.environment[name] for name in VERSIONS if recorded.environment.get(name)}
    return LockedMeasurement(
        anchor=result.anchor,
        speedup=result.speedup,
        shapes=[LockedShape.of(w, kernel_us=w.candidate_us, session_sd=spreads[w.name]) for w in result.workloads],
        versions={"forewarp": forewarp.__version__} | versions,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        other_processors=result.device_state and result.device_state.other_processors,
    )
