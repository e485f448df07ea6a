"""Jobs on small tasks, as the controller would send them."""

from __future__ import annotations

from forewarp.core.values import DeviceKind, Signature, Task, Workload
from forewarp.gpu_runner.devices import detect_cpu, known_targets
from forewarp.gpu_runner.worker.requests import TaskJob
from forewarp.gpu_runner.worker.signatures import describe_job


def task_job(task: Task, kind: DeviceKind = "cpu") -> TaskJob:
    return TaskJob(task=task.without_seeds(), target=detect_cpu() if kind == "cpu" else known_targets()["h200"])


def describe(reference: str, workload: Workload) -> Signature:
    """Work out the signature of a KernelBench file."""
    return describe_job(task_job(Task("task", "task", reference, {"cpu": (workload,)})), workload)


def describe_task(task: Task) -> Signature:
    """Work out the signature of a task's first workload on the CPU."""
    return describe_job(task_job(task), task.workloads["cpu"][0])
