"""The controller's side of profiling: jobs for the executor of a device, and profiles that are kept."""

from __future__ import annotations

import json

from forewarp.core import serde
from forewarp.core.errors import DeviceError
from forewarp.core.values import Task
from forewarp.gpu_runner.cache import default_cache
from forewarp.gpu_runner.executors.artifacts import cached, key_of
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.models.jobs import ModelProfile, PeakJob, ProfileJob

VERSION = "3"
PEAK_S = 240.0
"""For loading a model and calling it twice."""
_STARTED = 0.8
"""Share of the seconds of a profile that is left once the process has started and the model is loaded."""


def profile_of(
    executor: LocalExecutor,
    task: Task,
    seconds: float,
    *,
    graphs: bool = False,
    compiled: bool = False,
    kept: bool = False,
) -> ModelProfile:
    """Profile the reference of a task, or return the profile of it that is `kept`; raises `TaskError`."""
    if graphs and executor.target.kind != "cuda":
        raise DeviceError("a CPU has no CUDA graphs", hint="leave --graphs out, or --device cuda")
    target = executor.target
    job = ProfileJob(
        task=task.without_seeds(),
        target=target,
        seconds=_STARTED * seconds,
        graphs=graphs,
        compiled=compiled,
        inductor=compiled,
    )
    key = key_of(VERSION, task.sha256, serde.to_data(target), executor.toolchain_versions(), graphs, compiled)
    path = default_cache() / "profiles" / f"{key}.json"
    if not kept:
        path.unlink(missing_ok=True)
    return cached(
        path,
        lambda text: serde.from_data(ModelProfile, json.loads(text)),
        lambda: json.dumps(executor.run_task(job, seconds, "give it longer with --deadline")),
    )


def peak_of(executor: LocalExecutor, task: Task) -> int:
    """Return the bytes that a call of a task's reference takes at most; on a CPU, those of the process."""
    return int(executor.run_task(PeakJob(task=task.without_seeds(), target=executor.target), PEAK_S)["bytes"])
