"""Facts to show before any request: the device, the tasks, and recent runs."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import Field

from forewarp.archive.pools.parquet import tasks_of
from forewarp.core.errors import DeviceError
from forewarp.core.languages import languages_on
from forewarp.core.values import DEFAULT_TOLERANCES, AskedGradients, DeviceKind, Language, Task, TensorSpec, Tolerance
from forewarp.gpu_runner import devices
from forewarp.gpu_runner.compilers import cpp
from forewarp.gpu_runner.formats import task as tasks
from forewarp.search.summary import best_of
from forewarp.tools import session as sessions
from forewarp.tools.parts import Device, Interval, Part, Place, speedup_of
from forewarp.tools.run_report import lost

CPU_COMPILER_FLAGS = " ".join(cpp.FLAGS)
"""Flags that C++ kernels are compiled with."""

VECTOR_SETS = ("avx2", "fma", "avx512f", "avx512_bf16", "amx_tile", "asimd", "sve")


class DeviceFacts(Part):
    """The device on which a place measures; the rates are null where nobody knows them."""

    device: Device
    languages: list[str] = Field(description="Languages of kernels that it runs.")
    processors: int
    memory_bandwidth: float | None = Field(description="Bytes per second.")
    fp32_flops: float | None
    tensor_flops: float | None
    l2_bytes: int | None
    shared_bytes: int | None = Field(description="Shared memory that a block may use.")
    compiler: str | None = Field(default=None, description="How C++ for the CPU is compiled.")
    instruction_sets: list[str] | None = Field(default=None, description="For vectors, of a CPU.")


class TaskFacts(Part):
    """A task as its author sees it, with a kernel to start from."""

    name: str
    title: str
    reference: str
    shapes: dict[str, str]
    tolerance: str
    gradients: AskedGradients | None = Field(description="What is asked for: gradients only, or behind outputs, too.")
    seeds: dict[str, str] = Field(description="Text of a kernel that works, by language.")


class RecentRun(Part):
    """One of the latest runs."""

    run_id: str
    task: str
    device: str
    status: str
    best: Interval | None


def device_of(place: Place) -> DeviceFacts:
    """Return what is known of the device of a place; raises `DeviceError` where there is none."""
    if place.device == "replay":
        raise DeviceError(
            "this server replays recorded measurements, so that it has no device",
            hint="call describe with about tasks to see what can be asked for",
        )
    t = sessions.target_of(place)
    cpu = t.kind == "cpu"
    return DeviceFacts.of(
        t,
        device=Device.of(t),
        languages=languages_on(t.kind),
        compiler=_compiler() if cpu else None,
        instruction_sets=_vector_sets() if cpu else None,
    )


def _kind(place: Place) -> DeviceKind:
    """Return the kind of device of a place; other machines, which take seconds to ask, are assumed to have GPUs."""
    if place.device == "replay" or place.executor != "local":
        return "cpu" if place.device == "cpu" else "cuda"
    return devices.choose(place.device).kind


def languages_at(place: Place) -> tuple[Language, ...]:
    """Return the languages of kernels at a place, those with launch plans first."""
    return languages_on(_kind(place))


def _compiler() -> str | None:
    path = cpp.compiler()
    return None if path is None else f"{Path(path).name} {CPU_COMPILER_FLAGS}"


def _vector_sets() -> list[str] | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    found = next((line.split(":", 1)[1].split() for line in lines if line.startswith(("flags", "Features"))), [])
    return [name for name in VECTOR_SETS if name in found]


def bundled_tasks() -> dict[str, str]:
    """Return the titles of the bundled tasks by name."""
    return {name: tasks.load(name).title for name in tasks.bundled()}


def tasks_at(place: Place) -> dict[str, str]:
    """Return the titles of the tasks that a place can be asked about by name: on replay, those that the pool holds."""
    if place.device != "replay" or not place.pool:
        return bundled_tasks()
    return {task.name: task.title for task in tasks_of(Path(place.pool).expanduser()).values()}


def task_of(name: str | Task, place: Place) -> TaskFacts:
    """Return a task, by name or loaded, with its reference, shapes and seed kernels; raises `TaskError`."""
    task = sessions.load_task(name, place)
    kind = _kind(place)
    kind = kind if task.workloads.get(kind) else next(iter(task.workloads))
    fitting = [s for s in task.seeds if s.language in languages_on(kind)]
    return TaskFacts.of(
        task,
        shapes={w.name: _constants(w.constants) or _as_written(task.reference) for w in task.workloads[kind]},
        tolerance=tolerance(task.tolerance),
        seeds={s.language: s.source for s in fitting},
    )


def _constants(values: Mapping[str, object]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


def _as_written(reference: str) -> str:
    """Return the numbers that a reference's file sets, else what its `get_inputs()` returns."""
    numbers, inputs = dict[str, object](), ""
    for node in ast.parse(reference).body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int() | float() as value)):
                numbers[name] = value
            case ast.FunctionDef(name="get_inputs", body=[*_, ast.Return(value=ast.expr() as value)]):
                inputs = ast.unparse(value)
            case _:
                pass
    return _constants(numbers) or inputs


def tolerance(own: Tolerance | None, outputs: Sequence[TensorSpec] = ()) -> str:
    """Return a task's own tolerance as words, else those of its `outputs`, or of all types where nobody knows them."""
    held = {spec.dtype for spec in outputs} or DEFAULT_TOLERANCES.keys()
    by_type = {f" for {name}": t for name, t in DEFAULT_TOLERANCES.items() if name in held}
    said = ", ".join(f"{t.rtol:g} + {t.atol:g}{of}" for of, t in ({"": own} if own else by_type).items())
    if not said:
        return "outputs must be equal"
    return f"{said}: of each element + of the output's root mean square, against float64; integers must be equal"


def without_comments(code: str, *, inputs: bool = True) -> str:
    """Return Python code without comments and docstrings; without `inputs`, only what computes of a reference."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body[0:1] = [] if len(node.body) > 1 else [ast.Pass()]
    if not inputs:
        code_of = (node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef))
        tree.body = [node for node in code_of if node.name not in ("get_inputs", "get_init_inputs")]
    return re.sub(r"\n\n+", "\n", ast.unparse(tree))


def latest_runs(place: Place, limit: int = 10) -> list[RecentRun]:
    """Return the latest runs, the newest first; none where there is no archive."""
    if not sessions.archive_path(place).exists():
        return []
    found: list[RecentRun] = []
    with sessions.existing_archive(place) as archive:
        for row in archive.runs(limit=limit):
            (best, _), status = best_of(archive, row.id), "lost" if lost(row) else row.status
            found.append(
                RecentRun(
                    run_id=row.id, task=row.task.name, device=row.target.name, status=status, best=speedup_of(best)
                )
            )
    return found


def kernel_text(place: Place, kernel: str) -> str:
    """Return the source text of a recorded kernel by identity; raises `UsageError`."""
    with sessions.existing_archive(place) as archive:
        return archive.candidate(kernel).source
