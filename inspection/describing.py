"""The job that describes a task: what a workload's inputs, weights and outputs are, and what computing them takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forewarp.core import serde
from forewarp.core.values import CAPTURED, Signature, Workload
from forewarp.gpu_runner.worker import captured, memory, problem
from forewarp.gpu_runner.worker.channel import Channel
from forewarp.gpu_runner.worker.signatures import describe_job
from forewarp.gpu_runner.worker.task_confinement import run_confined
from forewarp.gpu_runner.worker.tracebacks import format_error
from forewarp.inspection.tracing.reference import describe_without_device


def describe(job: Mapping[str, Any], workload: Workload, *, flops: bool = True) -> Signature:
    """Work out a task's signature, also where the device that it is for is not there; see `describe_job`."""
    return describe_job(job, workload, flops=flops, without_device=describe_without_device)


def run(job: dict[str, Any], answer: Channel) -> None:
    """Answer with one signature per workload, or with the reference's error; the task's code runs confined."""
    if job["target_kind"] == "cpu":
        memory.bound_host()  # here: confined, the process could not read what its control groups leave it
    answer.send(run_confined(job, _describe))


def _describe(job: dict[str, Any]) -> dict[str, Any]:
    signatures: list[Signature] = []
    for workload in (serde.from_data(Workload, w) for w in job["workloads"]):
        where = f"on the captured call {workload.name}: " if CAPTURED in job.get("files", ()) else ""
        try:
            signatures.append(describe(job, workload))
        except captured.BadCapture as e:
            return {"error": str(e), "log": "", "hint": "capture what forward is called with, self left out"}
        except problem.ReferenceFailed as e:
            return {"error": f"{where}{e}", "log": ""}
        except Exception as e:
            return {"error": f"{where}{type(e).__name__}: {e}", "log": format_error(e, 4)}
    return {"signatures": serde.to_data(signatures)}
