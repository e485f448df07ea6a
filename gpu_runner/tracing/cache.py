"""Traces, kept by what went into them: the module, the reference, the workloads, the target, and versions."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from forewarp.core import serde
from forewarp.core.values import Candidate, Signature, Target
from forewarp.gpu_runner.executors.builds import ending
from forewarp.gpu_runner.executors.client import Reply, WorkerClient, readable
from forewarp.gpu_runner.executors.shelf import Shelf, need_room
from forewarp.gpu_runner.tracing.values import TRACE_FILE, Trace, WorkloadTrace

CACHE_VERSION = "1"


class Traces:
    """The traces for one target; safe in several threads and processes: a trace appears whole or not at all."""

    def __init__(self, worker: WorkerClient, target: Target, folder: Path, *, limit_s: float, memory: int) -> None:
        """`limit_s` bounds the processor time of one workload, `memory` the bytes of the tracing child."""
        self._worker, self._target, self._shelf = worker, target, Shelf(folder, "traces")
        self._limit_s, self._memory = limit_s, memory

    def get(
        self,
        candidate: Candidate,
        problem: Mapping[str, Any],
        versions: Mapping[str, str],
        signatures: Callable[[], Sequence[Signature]],
    ) -> Trace:
        """Return the trace of a module, from the cache where it is there.

        `problem` is what a job says of the task. A module that crashes or does not end gives a trace with that problem,
        which is not kept. `signatures` is asked only where the module has to run. Raises `WorkerError` on a full disk.
        """
        key = self._key(candidate, problem, versions)
        folder = self._shelf.folder / key
        if (folder / TRACE_FILE).exists():
            with contextlib.suppress(ValueError):
                trace = Trace.load(folder)
                return Trace(trace.workloads, trace.folder, cached=True)
            shutil.rmtree(folder, ignore_errors=True)
        described = signatures()
        with self._shelf.scratch("trace-") as scratch:
            return self._run(candidate, problem, described, scratch, key)

    def _run(
        self,
        candidate: Candidate,
        problem: Mapping[str, Any],
        signatures: Sequence[Signature],
        scratch: Path,
        key: str,
    ) -> Trace:
        names = [w["name"] for w in problem["workloads"]]
        # The workloads stop themselves; this is for a module that does not let itself be stopped.
        most_s = (3 * self._limit_s + 5) * len(names) + 10
        job = dict(problem) | {
            "kind": "trace",
            "candidate": serde.to_data(candidate),
            "signatures": serde.to_data(signatures),
            "target": serde.to_data(self._target),
            "folder": str(scratch),
            "memory": self._memory,
            "workload_s": self._limit_s,
            "cpu_s": int(most_s) * (os.cpu_count() or 1),
        }
        reply = self._worker.run(job, most_s)
        failed = _failure(reply, most_s)
        if failed:
            need_room(scratch)
            return _nothing(names, failed)
        try:
            trace = Trace.load(scratch)
        except ValueError as e:
            return _nothing(names, str(e))
        if sorted(trace.workloads) != sorted(names):
            return _nothing(names, "the trace has other workloads than the task")
        self._shelf.keep(scratch, key)
        return Trace.load(self._shelf.folder / key)

    def _key(self, candidate: Candidate, problem: Mapping[str, Any], versions: Mapping[str, str]) -> str:
        task = {k: problem[k] for k in ("reference", "format", "files", "workloads")}
        parts = [CACHE_VERSION, candidate.source, task, serde.to_data(self._target), dict(versions), self._limit_s]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _failure(reply: Reply, limit_s: float) -> str:
    """Return what went wrong with the child itself, "" where nothing did."""
    if reply.answer is not None:
        return "" if reply.answer["status"] == "ok" else readable(reply.answer["log"])
    status, log = ending(reply, limit_s)
    return f"tracing ended early ({status}): {log}"


def _nothing(names: Sequence[str], problem: str) -> Trace:
    return Trace({name: WorkloadTrace("cpu", problems=(problem,)) for name in names})
