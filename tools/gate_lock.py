"""Lock of kernels, to be committed: what each compiles to, how fast it was found, and what its outputs must keep."""

from __future__ import annotations

import datetime
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import Field, ValidationError

import forewarp
from forewarp.core.errors import CandidateError, TaskError, UsageError
from forewarp.core.languages import languages_on
from forewarp.core.values import DEFAULT_TOLERANCES, Candidate, Language, Task, Tolerance
from forewarp.gpu_runner import devices
from forewarp.tools import session as sessions
from forewarp.tools import sources
from forewarp.tools.files import write_whole
from forewarp.tools.forecast_kernel import forecast_kernel
from forewarp.tools.inspect_kernel import KernelInspection, LaunchFacts, inspect_kernels
from forewarp.tools.measure_kernel import measure_kernel
from forewarp.tools.measured import MeasureResult, Micros
from forewarp.tools.parts import SCHEMA_VERSION, Interval, Kernel, Part, Place
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
        """Return what a lock keeps of a launch."""
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


class LockedMeasurement(Part):
    """Times on one device."""

    anchor: str = Field(description='"reference", or the sha256 of the kernel that it was timed against.')
    speedup: Interval
    shapes: list[LockedShape]
    versions: dict[str, str] = Field(description="Of forewarp, Python, torch, Triton and the driver.")
    date: str


class LockedKernel(Part):
    """One kernel; paths are relative to the lock's folder, `compiled` and `forecasts` are by target."""

    path: str
    tunables: dict[str, int]
    language: Language
    sha256: str = Field(description="Identity: language, source and tunables.")
    task: str | None = Field(description="Bundled task, or path; null for a file of Triton kernels without a task.")
    inputs: str | None = None
    task_sha256: str | None = None
    tolerance: LockedOutput | None = Field(default=None, description="The task's own; null where the dtype decides.")
    outputs: list[LockedOutput] = Field(default_factory=list[LockedOutput])
    against: str | None = Field(default=None, description="Kernel that it is timed against, instead of the reference.")
    args: str = ""
    call: str = ""
    compiled: dict[str, list[LockedLaunch]] = Field(default_factory=dict[str, list[LockedLaunch]])
    forecasts: dict[str, LockedForecast] = Field(default_factory=dict[str, LockedForecast])
    measured: dict[str, LockedMeasurement] = Field(
        default_factory=dict[str, LockedMeasurement], description="By the device's name."
    )

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """Identity of the entry: where the kernel stands, and what it is for."""
        return self.path, json.dumps(self.tunables, sort_keys=True), self.task or "", self.inputs or "", self.call


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


def write_lock(path: Path, kernels: Sequence[LockedKernel]) -> None:
    """Write kernels in one order and form, so that equal locks are equal files; raises `UsageError`."""
    lock = GateLock(kernels=sorted(kernels, key=lambda k: k.key))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(lock.model_dump(mode="json"), indent=1, sort_keys=True) + "\n")
    except OSError as e:
        raise UsageError(f"{path} cannot be written: {e.strerror}", hint="pass another file with --out") from None


def lock_kernels(
    request: GateLockRequest, *, stage: Callable[[str], None] = lambda _: None, executors: Executors | None = None
) -> LockResult:
    """Compile, forecast and measure kernels, and write what was found into the lock, beside what it held before.

    A kernel that does not compile, or was found wrong, is not locked. Of a kernel whose source has not changed, what
    the lock knew of other targets and devices stays.
    """
    path = Path(request.out).expanduser().absolute()
    before = {k.key: k for k in read_lock(path).kernels} if path.exists() else {}
    place, root = request.place, path.parent
    if place.device == "replay":
        raise UsageError("a lock holds what was measured, not looked up", hint="leave --device replay out")
    if request.task is None and (request.against or request.inputs):
        raise UsageError("--against and --inputs are about a task, and none is given", hint="pass --task TASK")
    locker = _Locker(request, root)
    for kernel in request.kernels:
        locker.add(kernel)
    for target in request.targets or [_default_target()]:
        stage(f"compiling for {target}")
        locker.inspect(target.lower())
    with sessions.closing_executors(executors) as kept:
        locker.note_outputs(kept)
        for number, kernel in enumerate(list(locker.found) if request.measure else [], 1):
            stage(f"measuring {kernel.path} ({number} of {len(locker.found)})")
            locker.measure(kernel, kept)
    locked = [_with_past(k, before.get(k.key)) for k in locker.found]
    write_lock(path, list((before | {k.key: k for k in locked}).values()))
    said = f"{len(locked)} of {len(request.kernels)} kernels locked in {path.name}"
    return LockResult(
        summary=f"{said}, {sum(bool(k.measured) for k in locked)} of them with times.",
        lock=str(path),
        kernels=locked,
        problems=locker.problems,
        notes=locker.notes,
    )


def _default_target() -> str:
    here = devices.detect_cuda()
    return next((n for n, t in devices.known_targets().items() if here and t.name == here.name), "h200")


def _with_past(kernel: LockedKernel, past: LockedKernel | None) -> LockedKernel:
    """Add what was known of other targets and devices, if kernel and task are still the same."""
    if past is None or (past.sha256, past.task_sha256) != (kernel.sha256, kernel.task_sha256):
        return kernel
    merged = {name: getattr(past, name) | getattr(kernel, name) for name in ("compiled", "forecasts", "measured")}
    return kernel.model_copy(update=merged)


class _Locker:
    """Collects what a lock says of the kernels of one request."""

    def __init__(self, request: GateLockRequest, root: Path) -> None:
        self.request, self.root, self.place = request, root, request.place
        self.found: list[LockedKernel] = []
        self.problems: list[str] = []
        self.notes: list[str] = []
        self.task: Task | None = None
        self.about_task: dict[str, object] = {}
        if request.task is not None:
            self.task = sessions.load_task(request.task, self.place, inputs=request.inputs)
            self.about_task = _about_task(request, self.task, root)

    def add(self, kernel: Kernel) -> None:
        """Read a kernel; one that cannot be read becomes a problem."""
        request = self.request
        try:
            candidate = _read(kernel, with_task=self.task is not None)
        except CandidateError as e:
            self.problems.append(f"{kernel.path}: {e.message}")
            return
        locked = LockedKernel(
            path=relative(kernel.path or "", self.root),
            tunables=dict(candidate.tunables),
            language=candidate.language,
            sha256=candidate.sha256,
            against=relative(request.against.path, self.root) if request.against and request.against.path else None,
            args=request.args,
            call=request.call,
            **self.about_task or {"task": None},  # pyright: ignore[reportArgumentType]
        )
        self.found.append(locked)

    def inspect(self, target: str) -> None:
        """Add what the kernels compile to for a target, and forecasts."""
        seen = inspect_locked(self.found, self.root, target, self.place.python)
        for kernel, inspection in zip(list(self.found), seen, strict=True):
            if inspection is None:
                continue
            if inspection.status != "ok":
                self._drop(kernel, f"it does not compile for {target}: {inspection.log}")
                continue
            added = _added(kernel, "compiled", target, launches_of(inspection))
            made = forecast_locked(kernel, self.root, target, self.place.python)
            self.found[self.found.index(kernel)] = _added(added, "forecasts", target, made) if made else added

    def note_outputs(self, executors: Executors) -> None:
        """Add the tolerance of each output; a task that checks its outputs itself has none."""
        if self.task is None or self.task.format == "gpumode":
            return
        signature = executors.get(self.place, self.task).describe(self.task)[0]
        kept = [(o.dtype, self.task.tolerance or DEFAULT_TOLERANCES.get(o.dtype)) for o in signature.outputs]
        outputs = [LockedOutput.of(tolerance, dtype=dtype) for dtype, tolerance in kept if tolerance]
        self.found = [k.model_copy(update={"outputs": outputs}) for k in self.found]

    def measure(self, kernel: LockedKernel, executors: Executors) -> None:
        """Add times on the device, if it runs the kernel."""
        kind = sessions.target_of(self.place).kind
        if kernel.task is None or kernel.language not in languages_on(kind):
            why = "without a task it has no inputs" if kernel.task is None else f"the device is a {kind}"
            self.notes.append(f"{kernel.path} was not measured: {why}")
            return
        result = measure_locked(kernel, self.root, self.place, executors)
        if result.trusted and result.speedup is not None:
            added = _added(kernel, "measured", result.device.name, _measured(result, self.place))
            self.found[self.found.index(kernel)] = added
        elif result.status == "ok" or (kernel.language == "python" and kind == "cpu"):  # a module may need a GPU
            self.notes.append(f"{kernel.path} has no times: {result.summary}")
        else:
            self._drop(kernel, result.summary)

    def _drop(self, kernel: LockedKernel, why: str) -> None:
        self.found.remove(kernel)
        self.problems.append(f"{kernel.path}: {why}")


def _added(kernel: LockedKernel, field: str, key: str, value: object) -> LockedKernel:
    return kernel.model_copy(update={field: getattr(kernel, field) | {key: value}})


def relative(path: str, root: Path) -> str:
    """Return a path relative to the lock's folder, with slashes on every system."""
    return Path(os.path.relpath(Path(path).expanduser().absolute(), root)).as_posix()


def _about_task(request: GateLockRequest, task: Task, root: Path) -> dict[str, object]:
    """Return the fields of a locked kernel that are about its task."""
    name = request.task
    if isinstance(name, Task):
        raise UsageError("a lock names its tasks, and this one is no file", hint="pass a bundled name or a path")
    own = task.tolerance and LockedOutput(dtype="", rtol=task.tolerance.rtol, atol=task.tolerance.atol)
    return {
        "task": name if name in sessions.bundled_tasks() else relative(str(name), root),
        "inputs": relative(request.inputs, root) if request.inputs else None,
        "task_sha256": task.sha256,
        "tolerance": own,
    }


def _read(kernel: Kernel, *, with_task: bool) -> Candidate:
    """Read a kernel, or any Python file where there is no task; raises `CandidateError`."""
    if with_task:
        return sessions.choose_candidate(kernel)
    path = Path(kernel.path or "").expanduser()
    sources.check_file(path)
    try:
        return Candidate(path.read_text(), "python")
    except (OSError, UnicodeDecodeError) as e:
        raise CandidateError(f"{path} cannot be read: {e}") from None


def read_again(kernel: LockedKernel, root: Path) -> Candidate:
    """Read a locked kernel as its file is now; raises `CandidateError`."""
    return _read(as_kernel(kernel, root), with_task=kernel.task is not None)


def load_locked_task(kernel: LockedKernel, root: Path) -> Task:
    """Load a kernel's task, to be judged by the tolerance that was locked; raises `TaskError`."""
    name = kernel.task or ""
    inputs = str(root / kernel.inputs) if kernel.inputs else None
    task = sessions.load_task(name if name in sessions.bundled_tasks() else str(root / name), Place(), inputs=inputs)
    own = kernel.tolerance and Tolerance(kernel.tolerance.rtol, kernel.tolerance.atol)
    return task if task.tolerance == own else replace(task, tolerance=own)


def as_kernel(kernel: LockedKernel, root: Path) -> Kernel:
    """Return a locked kernel as the verbs take it."""
    return Kernel(path=str(root / kernel.path), tunables=kernel.tunables)


def inspect_locked(
    kernels: Sequence[LockedKernel], root: Path, target: str, python: str | None, *, check: bool = False
) -> list[KernelInspection | None]:
    """Return what each kernel compiles to for a target, None for C++; what cannot be inspected has a log.

    `check` has those with a task run on the CPU, too. Raises `UsageError` for an unknown target, `DeviceError` and
    `WorkerError`.
    """
    found: list[KernelInspection | None] = [None] * len(kernels)
    groups: dict[tuple[str, ...], list[int]] = {}
    for index, k in enumerate(kernels):
        if k.language != "cpp":
            groups.setdefault((k.task or "", k.inputs or "", k.args, k.call), []).append(index)
    for members in groups.values():
        first = kernels[members[0]]
        asked = [as_kernel(kernels[index], root) for index in members]
        alone = InspectRequest(kernels=asked, target=target, python=python, args=first.args, call=first.call)
        try:
            if first.task is not None:
                alone = alone.model_copy(update={"task": load_locked_task(first, root), "check": check})
            seen = inspect_kernels(alone).kernels
        except TaskError as e:
            seen = [KernelInspection(path="", kernel=None, status=None, log=str(e), seconds=0.0) for _ in members]
        for index, inspection in zip(members, seen, strict=True):
            found[index] = inspection
    return found


def launches_of(seen: KernelInspection) -> list[LockedLaunch]:
    """Return what a lock keeps of an inspection."""
    return [LockedLaunch.seen(w.workload, launch) for w in seen.workloads for launch in w.launches]


def forecast_locked(kernel: LockedKernel, root: Path, target: str, python: str | None) -> LockedForecast | None:
    """Forecast a kernel without the archive, whose measurements would move forecasts; None where it cannot be."""
    if kernel.task is None or kernel.language == "cpp":
        return None
    with tempfile.TemporaryDirectory() as empty:
        place = Place(python=python, archive=str(Path(empty) / "archive.db"))
        try:
            task = load_locked_task(kernel, root)
            made = forecast_kernel(
                ForecastRequest(task=task, kernel=as_kernel(kernel, root), target=target, place=place)
            )
        except UsageError:  # what is wrong is said by the inspection
            return None
    return made.forecast and LockedForecast(median=made.forecast.median, forewarp=forewarp.__version__)


def measure_locked(kernel: LockedKernel, root: Path, place: Place, executors: Executors) -> MeasureResult:
    """Measure a kernel against its task's reference, or the kernel that it is locked against."""
    against = Kernel(path=str(root / kernel.against)) if kernel.against else None
    task = load_locked_task(kernel, root)
    request = MeasureRequest(task=task, kernel=as_kernel(kernel, root), against=against, place=place)
    return measure_kernel(request, executors=executors)


def versions_of(result: MeasureResult, place: Place) -> dict[str, str]:
    """Return the versions that a measurement was made with."""
    with sessions.open_archive(place) as archive:
        row = archive.measurement(result.measurement_id or 0, whole=False)
    environment = row.measurement.environment if row.measurement else {}
    named = {name: environment[name] for name in VERSIONS if environment.get(name)}
    return {"forewarp": forewarp.__version__} | named


def _measured(result: MeasureResult, place: Place) -> LockedMeasurement:
    assert result.speedup is not None
    return LockedMeasurement(
        anchor=result.anchor,
        speedup=result.speedup,
        shapes=[LockedShape.of(w, kernel_us=w.candidate_us) for w in result.workloads],
        versions=versions_of(result, place),
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )
