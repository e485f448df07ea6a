"""Checks without a GPU: Triton in its interpreter, CUDA in an emulator, both in a worker that sees no device."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

from forewarp.core import serde
from forewarp.core.checking import Check, CheckedHow
from forewarp.core.errors import UsageError
from forewarp.core.values import Candidate, Language, Target, Task
from forewarp.gpu_runner.cache import default_cache
from forewarp.gpu_runner.devices import known_targets
from forewarp.gpu_runner.executors.builds import ending
from forewarp.gpu_runner.executors.client import WorkerClient
from forewarp.gpu_runner.formats import plan as plans
from forewarp.inspection import jobs

_JOBS: dict[Language, tuple[str, CheckedHow]] = {
    "triton": (jobs.INTERPRET, "CPU-interpreted"),
    "python": (jobs.INTERPRET, "CPU-interpreted"),
    "cuda": (jobs.EMULATE, "CPU-emulated"),
}
_START_S = 30.0
"""For starting a process and running the reference, beyond the time that the check itself may take."""


class Checks:
    """Starts its worker with the first check. Safe to use from several threads."""

    def __init__(
        self, target: Target, python: str = sys.executable, *, memory: int = 8 << 30, cache: Path | None = None
    ) -> None:
        """`target` is the device that modules take to be there, `memory` bounds a candidate in bytes.

        `python` is the interpreter whose torch and Triton are used, `cache` where what does not depend on a candidate
        is kept.
        """
        self._python, self._memory, self._cache = python, memory, cache or default_cache()
        self._target = target if target.kind == "cuda" else known_targets()["h200"]
        self._worker: WorkerClient | None = None
        self._lock = threading.Lock()

    def run(self, task: Task, candidate: Candidate, budget_s: float) -> Check:
        """Check a candidate in about `budget_s` seconds.

        Raises `CandidateError` where its launch plan cannot be read, and `UsageError` for a CPU candidate.
        """
        if candidate.language not in _JOBS:
            raise UsageError(
                f"a {candidate.language} candidate needs no check without a GPU",
                hint="measure it: it runs on any CPU, and measuring checks it first",
            )
        if candidate.language != "python":
            plans.parse(candidate)
        kind, how = _JOBS[candidate.language]
        job: dict[str, Any] = {
            "kind": kind,
            "candidate": serde.to_data(candidate),
            "reference": task.reference,
            "format": task.format,
            "files": dict(task.files),
            "kinds": {k: serde.to_data(w) for k, w in task.workloads.items()},
            "target_kind": "cpu",
            "target": serde.to_data(self._target),
            "tolerance": serde.to_data(task.tolerance),
            "perturb": task.perturb,
            "mode": task.mode,
            "allow_tf32": task.allow_tf32,
            "budget_s": budget_s,
            "memory": self._memory,
            "cache": str(self._cache / "emulator"),
        }
        limit_s = 1.5 * budget_s + _START_S
        reply = self._started().run(job, limit_s)
        if reply.answer is not None and "error" not in reply.answer:
            return serde.from_data(Check, reply.answer)
        log = f"{reply.answer['error']}\n{reply.log}".strip() if reply.answer else ending(reply, limit_s)[1]
        return Check(how, "failed", (), (), reply.seconds, f"the check itself ended early: {log}")

    def _started(self) -> WorkerClient:
        with self._lock:
            if self._worker is None:
                # Triton decides when it is imported whether to compile or to interpret, its own functions included.
                self._worker = WorkerClient(self._python, {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""})
            return self._worker

    def close(self) -> None:
        """End the worker, if it was ever started."""
        with self._lock:
            if self._worker is not None:
                self._worker.close()
                self._worker = None
