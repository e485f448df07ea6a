"""Cache of traces by the module, the reference, the workloads, the target, and versions."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from forewarp.core import serde
from forewarp.core.values import Candidate, Signature, Target
from forewarp.gpu_runner.executors.builds import ending
from forewarp.gpu_runner.executors.client import Reply, WorkerClient, readable
from forewarp.gpu_runner.executors.shelf import Shelf, need_room
from forewarp.gpu_runner.worker.toolchain import private
from forewarp.inspection import jobs
from forewarp.inspection.tracing.files.loading import package_of
from forewarp.inspection.tracing.values import IMPORT, TRACE_FILE, SourceFile, Trace, WorkloadTrace

CACHE_VERSION = "3"


class Traces:
    """Cache of traces for one target; safe in several threads and processes: a trace appears whole or not at all."""

    def __init__(self, worker: WorkerClient, target: Target, folder: Path, *, limit_s: float, memory: int) -> None:
        """Keep traces in `folder`; `limit_s` bounds a workload's processor time, `memory` the tracing child's bytes."""
        self._worker, self._target, self._shelf = worker, target, Shelf(folder, "traces")
        self._limit_s, self._memory = limit_s, memory

    def get(
        self,
        candidate: Candidate,
        problem: Mapping[str, Any],
        versions: Mapping[str, str],
        signatures: Callable[[], Sequence[Signature]],
        *,
        backward: bool | None = False,
    ) -> Trace:
        """Return the trace of a module, from the cache where it is there.

        `problem` is what a job says of the task, `backward` whether the gradient is traced (None: where a
        torch.autograd.Function makes the output). A module that crashes or does not end gives a trace with that
        problem, which is not kept. `signatures` is asked only where the module has to run. Raises `WorkerError` on a
        full disk.
        """
        if backward is None and "autograd" not in candidate.source:
            backward = False
        key = self._key(candidate, problem, versions, backward)
        kept = self._kept(key)
        if kept is not None:
            return kept
        names = [w["name"] for w in problem["workloads"]]
        job = dict(problem) | {
            "candidate": serde.to_data(candidate),
            "signatures": serde.to_data(signatures()),
            "backward": backward,
        }
        return self._run(job, names, key)

    def of_file(self, file: SourceFile, versions: Mapping[str, str]) -> Trace:
        """Return the trace of a file without a task, from the cache where it is there.

        What it imports from beside it counts as part of the file as far as the time at which it was last changed.
        """
        parts = [CACHE_VERSION, serde.to_data(file), serde.to_data(self._target), dict(versions), self._limit_s]
        key = hashlib.sha256(json.dumps([*parts, _beside(file.path)], sort_keys=True).encode()).hexdigest()
        return self._kept(key) or self._run({"file": serde.to_data(file), "reads": _own_files(file.path)}, None, key)

    def _kept(self, key: str) -> Trace | None:
        folder = self._shelf.folder / key
        if (folder / TRACE_FILE).exists():
            with contextlib.suppress(ValueError):
                return replace(Trace.load(folder), cached=True)
            shutil.rmtree(folder, ignore_errors=True)
        return None

    def _run(self, about: Mapping[str, Any], names: Sequence[str] | None, key: str) -> Trace:
        """Trace in a child. `names` are the workloads that the trace must have; None where the file decides."""
        with self._shelf.scratch("trace-") as scratch:
            return self._traced(about, names, scratch, key)

    def _traced(self, about: Mapping[str, Any], names: Sequence[str] | None, scratch: Path, key: str) -> Trace:
        # The workloads stop themselves; this is for a module that does not let itself be stopped.
        most_s = (3 * self._limit_s + 5) * len(names or "x") + 10
        job = dict(about) | {
            "kind": jobs.TRACE,
            "target": serde.to_data(self._target),
            "folder": str(scratch),
            "memory": self._memory,
            "workload_s": self._limit_s,
            "cpu_s": int(most_s) * (os.cpu_count() or 1),
        }
        reply = self._worker.run(job, most_s)
        names = [IMPORT] if names is None else names
        failed = _failure(reply, most_s)
        if failed:
            need_room(scratch)
            with contextlib.suppress(ValueError):
                if "file" in about:
                    return self._so_far(Trace.load(scratch), failed, scratch, key)
            return _nothing(names, failed)
        try:
            trace = Trace.load(scratch)
        except ValueError as e:
            return _nothing(names, str(e))
        if "file" not in about and sorted(trace.workloads) != sorted(names):
            return _nothing(names, "the trace has other workloads than the task")
        self._shelf.keep(scratch, key)
        return Trace.load(self._shelf.folder / key)

    def _so_far(self, trace: Trace, failed: str, scratch: Path, key: str) -> Trace:
        """Return what a file's trace had written when it ended early; asked again, the file is traced again."""
        first = trace.workloads.get(IMPORT, WorkloadTrace("cpu"))
        told = {IMPORT: replace(first, problems=(*first.problems, failed))}
        shutil.rmtree(self._shelf.folder / f"{key}-part", ignore_errors=True)
        self._shelf.keep(scratch, f"{key}-part")
        return replace(
            trace,
            workloads=told | {n: w for n, w in trace.workloads.items() if n != IMPORT},
            folder=str(self._shelf.folder / f"{key}-part"),
        )

    def _key(
        self, candidate: Candidate, problem: Mapping[str, Any], versions: Mapping[str, str], backward: bool | None
    ) -> str:
        task = {k: problem[k] for k in ("reference", "format", "files", "workloads")}
        parts = [CACHE_VERSION, candidate.source, task, serde.to_data(self._target), dict(versions), self._limit_s]
        parts.append(backward)
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _failure(reply: Reply, limit_s: float) -> str:
    """Return what went wrong with the child itself, "" where nothing did."""
    if reply.answer is not None:
        return "" if reply.answer["status"] == "ok" else readable(reply.answer["log"])
    status, log = ending(reply, limit_s)
    return f"tracing ended early ({status}): {log}"


def _own_files(path: str) -> list[str]:
    """Return what a file may read of its neighbours: the folder that it imports from, unless that is a home."""
    if not path:
        return []
    place = Path(path).resolve()
    _, root = package_of(place)
    return [str(place if private(str(root)) else root)]


def _beside(path: str) -> float:
    """Return when a Python file of the file's folder was last changed; 0 where it has none."""
    if not path:
        return 0.0
    times = [0.0]
    for other in Path(path).parent.glob("*.py"):
        with contextlib.suppress(OSError):
            times.append(other.stat().st_mtime)
    return max(times)


def _nothing(names: Sequence[str], problem: str) -> Trace:
    return Trace({name: WorkloadTrace("cpu", problems=(problem,)) for name in names})
