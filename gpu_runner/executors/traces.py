"""Cache of traces by the module, the reference, the workloads, the target, and versions."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from forewarp.core import serde
from forewarp.core.values import Candidate, Signature, Target, Task
from forewarp.gpu_runner.executors.artifacts import ArtifactCache, key_of, need_room
from forewarp.gpu_runner.executors.client import Reply, WorkerClient, readable
from forewarp.gpu_runner.worker.requests import ConfinedFolder, JobEnding, WorkerJob
from forewarp.inspection.jobs import TraceFileJob, TraceJob
from forewarp.inspection.tracing.files.loading import readable_beside
from forewarp.inspection.tracing.values import IMPORT, TRACE_FILE, SourceFile, Trace, WorkloadTrace

CACHE_VERSION = "4"


class Traces:
    """Traces for one target; safe to use from several threads and processes."""

    def __init__(self, worker: WorkerClient, target: Target, cache: Path, *, limit_s: float, memory: int) -> None:
        """Keep traces under `cache`; `limit_s` bounds a workload's processor time, `memory` the child's bytes."""
        self._worker, self._target, self._cache = worker, target, ArtifactCache(cache / "traces", "traces")
        self._limit_s, self._memory = limit_s, memory

    def get(
        self,
        candidate: Candidate,
        task: Task,
        versions: Mapping[str, str],
        signatures: Callable[[], Sequence[Signature]],
        *,
        backward: bool | None = False,
    ) -> Trace:
        """Return the trace of a module, from the cache where it is there.

        With `backward`, the gradient is traced, too (None: where a torch.autograd.Function makes the output). A module
        that crashes or does not end gives a trace with that problem, which is not kept. Raises `WorkerError` on a full
        disk.
        """
        if backward is None and "autograd" not in candidate.source:
            backward = False
        workloads = task.workloads[self._target.kind]
        about = (task.reference, task.format, dict(task.files), task.mode, task.gradients, serde.to_data(workloads))
        key = self._key(candidate.source, about, dict(versions), backward)
        if (kept := self._kept(key)) is not None:
            return kept
        known = tuple(signatures())

        def job(folder: ConfinedFolder) -> TraceJob:
            return TraceJob(
                task=task,
                target=self._target,
                signatures=known,
                candidate=candidate,
                folder=folder,
                workload_s=self._limit_s,
                backward=backward,
            )

        return self._trace(job, [w.name for w in workloads], key)

    def of_file(self, file: SourceFile, versions: Mapping[str, str]) -> Trace:
        """Return the trace of a file without a task, from the cache where no file beside it has changed since."""
        key = self._key(serde.to_data(file), dict(versions), _last_change_beside(file.path))

        def job(folder: ConfinedFolder) -> TraceFileJob:
            folder = replace(folder, reads=readable_beside(file.path))
            return TraceFileJob(file=file, target=self._target, folder=folder, limit_s=self._limit_s)

        return self._kept(key) or self._trace(job, None, key)

    def _key(self, *parts: Any) -> str:
        return key_of(CACHE_VERSION, *parts, serde.to_data(self._target), self._limit_s)

    def _kept(self, key: str) -> Trace | None:
        folder = self._cache.folder / key
        if (folder / TRACE_FILE).exists():
            with contextlib.suppress(ValueError):
                return replace(Trace.load(folder), cached=True)
            shutil.rmtree(folder, ignore_errors=True)
        return None

    def _trace(self, job: Callable[[ConfinedFolder], WorkerJob], workloads: Sequence[str] | None, key: str) -> Trace:
        """Trace in a child. The trace must have these workloads; None where the file decides."""
        names = [IMPORT] if workloads is None else workloads
        # The workloads stop themselves; this is for a module that does not let itself be stopped.
        most_s = (3 * self._limit_s + 5) * len(names) + 10
        with self._cache.scratch() as scratch:
            folder = ConfinedFolder(str(scratch), self._memory, int(most_s) * (os.cpu_count() or 1))
            failed = _failure(self._worker.run(job(folder), most_s), most_s)
            if failed:
                need_room(scratch)
            try:
                trace = Trace.load(scratch)
            except ValueError as e:
                return _nothing(names, failed or str(e))
            if failed:
                return self._so_far(trace, failed, scratch, key) if workloads is None else _nothing(names, failed)
            if workloads is not None and sorted(trace.workloads) != sorted(workloads):
                return _nothing(names, "the trace has other workloads than the task")
            return Trace.load(self._cache.keep(scratch, key))

    def _so_far(self, trace: Trace, failed: str, scratch: Path, key: str) -> Trace:
        """Return what a file's trace had written when it ended early; asked again, the file is traced again."""
        first = trace.workloads.get(IMPORT, WorkloadTrace("cpu"))
        imported = {IMPORT: replace(first, problems=(*first.problems, failed))}
        shutil.rmtree(self._cache.folder / f"{key}-part", ignore_errors=True)
        folder = self._cache.keep(scratch, f"{key}-part")
        others = {n: w for n, w in trace.workloads.items() if n != IMPORT}
        return replace(trace, workloads=imported | others, folder=str(folder))


def _failure(reply: Reply, limit_s: float) -> str:
    if (ended := reply.read(JobEnding)) is not None:
        return "" if ended.status == "ok" else readable(ended.log)
    status, log = reply.ending(limit_s)
    return f"tracing ended early ({status}): {log}"


def _last_change_beside(path: str) -> float:
    times = [0.0]
    for other in Path(path).parent.glob("*.py") if path else ():
        with contextlib.suppress(OSError):
            times.append(other.stat().st_mtime)
    return max(times)


def _nothing(names: Sequence[str], problem: str) -> Trace:
    return Trace({name: WorkloadTrace("cpu", problems=(problem,)) for name in names})
