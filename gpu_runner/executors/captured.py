"""A task on captured inputs: a confined worker reads the file, each call becomes a workload."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import replace
from pathlib import Path

from forewarp.core.errors import TaskError
from forewarp.core.values import CAPTURED, DeviceKind, Task, Workload
from forewarp.gpu_runner.cache import default_cache
from forewarp.gpu_runner.executors.artifacts import cached
from forewarp.gpu_runner.executors.client import WorkerClient
from forewarp.gpu_runner.worker.requests import ReadInputsJob

CACHE_VERSION = 1
"""Rises whenever the same file is read as another text."""
_LIMIT_S = 600.0
_HINT = (
    'save a list of calls with torch.save, each a tuple of what forward takes or {"name": …, "weight": …, '
    '"values": (…)}; see docs/tasks.md, captured inputs'
)


def with_inputs(task: Task, path: Path, python: str = sys.executable, cache: Path | None = None) -> Task:
    """Return the task with the calls of a file as its workloads, in place of its own.

    A call takes the constants of the task's first workload. `python` has the torch that reads the file; what it read is
    kept in `cache` by the file's contents. Raises `TaskError` that says what is wrong with the file.
    """
    if task.format != "kernelbench":
        raise TaskError(
            f"{task.name} is a GPU MODE task, which makes its data itself: it takes no captured inputs",
            hint="write its reference as a KernelBench file (class Model), and pass the captured inputs with that",
        )
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as e:
        raise TaskError(f"the file of captured inputs {path} cannot be read: {e.strerror}", hint=_HINT) from None
    note = (cache or default_cache()) / "inputs" / f"{digest}-{CACHE_VERSION}.json"
    text, found = cached(note, lambda text: (text, json.loads(text)), lambda: _read(path, digest, python))
    workloads: dict[DeviceKind, tuple[Workload, ...]] = {
        kind: tuple(Workload(c["name"], known[0].constants, c["weight"]) for c in found["calls"])
        for kind, known in task.workloads.items()
    }
    return replace(task, workloads=workloads, files={**task.files, CAPTURED: text})


def _read(path: Path, digest: str, python: str) -> str:
    worker = WorkerClient(python, {"CUDA_VISIBLE_DEVICES": ""}, cpu_only=True)
    try:
        reply = worker.run(ReadInputsJob(path=str(path.resolve()), sha256=digest), _LIMIT_S)
    finally:
        worker.close()
    answer = reply.answer or {"error": "reading it took too long" if reply.timed_out else reply.log}
    if "error" in answer:
        raise TaskError(f"{path} holds no captured inputs: {answer['error']}", hint=_HINT)
    return str(answer["text"])
