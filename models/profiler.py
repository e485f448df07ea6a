"""The controller's side of profiling: a confined child of a worker of its own, and profiles that are kept."""

from __future__ import annotations

import json
import sys
from typing import Any

from forewarp.core import serde
from forewarp.core.errors import DeviceError, TaskError
from forewarp.core.values import Target, Task
from forewarp.gpu_runner import devices
from forewarp.gpu_runner.cache import default_cache
from forewarp.gpu_runner.executors import verdicts
from forewarp.gpu_runner.executors.artifacts import cached, key_of
from forewarp.gpu_runner.executors.client import WorkerClient
from forewarp.gpu_runner.executors.local import exclusive_device, visible_device
from forewarp.gpu_runner.worker.channel import MACHINE
from forewarp.gpu_runner.worker.requests import TaskFailure, TaskJob
from forewarp.gpu_runner.worker.toolchain import EXTRA
from forewarp.models.jobs import ModelProfile, PeakJob, ProfileJob

VERSION = "1"
START_S = 240.0
"""For starting, loading a model and exporting it, beyond the seconds that calls may take."""


class ModelWorker:
    """Profiles models on a device of this machine; close it at the end, as `with` does."""

    def __init__(self, device: str, python: str | None = None) -> None:
        """Choose a device as `devices.choose` does; raises as that does."""
        self.target: Target = devices.choose(device)
        self._python = python or sys.executable
        cuda = self.target.kind == "cuda"
        index = devices.indices(device)[0] if device.startswith("cuda") else 0
        self._visible = visible_device(index) if cuda else ""
        environment = {"CUDA_VISIBLE_DEVICES": self._visible} if cuda else {}
        self._worker = WorkerClient(self._python, environment, cpu_only=not cuda)

    def __enter__(self) -> ModelWorker:
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.close()

    def profile(self, task: Task, seconds: float, *, graphs: bool = False, kept: bool = False) -> ModelProfile:
        """Profile the reference of a task in about `seconds`, or return the last profile of it if `kept`.

        Raises `TaskError` with the model's own error.
        """
        if graphs and self.target.kind != "cuda":
            raise DeviceError("a CPU has no CUDA graphs", hint="leave --graphs out, or --device cuda")
        job = ProfileJob(task=task.without_seeds(), target=self.target, seconds=seconds, graphs=graphs)
        key = key_of(VERSION, task.sha256, serde.to_data(self.target), self._python, graphs)
        path = default_cache() / "profiles" / f"{key}.json"
        if not kept:
            path.unlink(missing_ok=True)
        return cached(
            path,
            lambda text: serde.from_data(ModelProfile, json.loads(text)),
            lambda: json.dumps(self._run(job, seconds + START_S)),
        )

    def peak(self, task: Task) -> int:
        """Return the bytes that a call of a task's reference takes at most; on a CPU, those of the process."""
        return int(self._run(PeakJob(task=task.without_seeds(), target=self.target), START_S)["bytes"])

    def _run(self, job: TaskJob, limit_s: float) -> dict[str, Any]:
        with exclusive_device(default_cache() / "locks", self.target, self._visible):
            reply = self._worker.run(job, limit_s)
        if reply.answer is not None and "error" not in reply.answer:
            return reply.answer
        failed = reply.read(TaskFailure) or TaskFailure(reply.ending(limit_s)[1])
        if failed.status == MACHINE:
            raise verdicts.short_of_memory(failed.error)
        raise TaskError(
            f"{job.task.name} cannot be profiled: {failed.error}\n{failed.log}".strip(),
            hint=f"a model's code runs without network, and reads no files but packages and what {EXTRA} names",
        )
