"""Cache of traces by the module, the reference, the workloads, the target, and versions."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from forewarp.core import serde
from forewarp.core.values import Candidate, Signature, Target, Task
from forewarp.gpu_runner.executors.artifacts import ArtifactCache, key_of, need_room
from forewarp.gpu_runner.executors.client import Reply, WorkerClient, readable
from forewarp.gpu_runner.worker.requests import ConfinedFolder, JobEnding
from forewarp.inspection.jobs import TraceJob
from forewarp.inspection.tracing.values import TRACE_FILE, Trace, WorkloadTrace

CACHE_VERSION = "5"


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
    ) -> Trace:
        """Return the trace of a module, from the cache where it is there.

        A module that crashes or does not end gives a trace with that problem, which is not kept. Raises `WorkerError`
        on a full disk.
        """
        workloads = task.workloads[self._target.kind]
        about = (task.reference, task.format, dict(task.files), task.mode, task.gradients, serde.to_data(workloads))
        key = key_of(CACHE_VERSION, candidate.source, about, dict(versions), serde.to_data(self._target), self._limit_s)
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
            )

        return self._trace(job, [w.name for w in workloads], key)

    def _kept(self, key: str) -> Trace | None:
        folder = self._cache.folder / key
        if (folder / TRACE_FILE).exists():
            with contextlib.suppress(ValueError):
                return replace(Trace.load(folder), cached=True)
            shutil.rmtree(folder, ignore_errors=True)
        return None

    def _trace(self, job: Callable[[ConfinedFolder], TraceJob], names: Sequence[str], key: str) -> Trace:
        """Trace in a child. The trace must have these workloads."""
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
                return _nothing(names, failed)
            if sorted(trace.workloads) != sorted(names):
                return _nothing(names, "the trace has other workloads than the task")
            return Trace.load(self._cache.keep(scratch, key))


def _failure(reply: Reply, limit_s: float) -> str:
    if (ended := reply.read(JobEnding)) is not None:
        return "" if ended.status == "ok" else readable(ended.log)
    status, log = reply.ending(limit_s)
    return f"tracing ended early ({status}): {log}"


def _nothing(names: Sequence[str], problem: str) -> Trace:
    return Trace({name: WorkloadTrace("cpu", problems=(problem,)) for name in names})
