"""The job that traces every workload of a module into a folder, in a confined child."""

from __future__ import annotations

from pathlib import Path

from forewarp.gpu_runner.worker.channel import Channel
from forewarp.gpu_runner.worker.jobs import watched
from forewarp.gpu_runner.worker.requests import JobEnding
from forewarp.inspection.jobs import TraceJob
from forewarp.inspection.tracing.program import trace_workload, use_no_device
from forewarp.inspection.tracing.values import Trace


def run(job: TraceJob, answer: Channel) -> None:
    """Trace a module's launches, confined: the module and the reference run here."""
    watched(job.folder, answer, lambda: _trace(job), "module")


def _trace(job: TraceJob) -> JobEnding:
    """Write the trace and its cubins into the folder."""
    folder = Path(job.folder.path)
    use_no_device(folder)
    pairs = zip(job.workloads, job.signatures, strict=True)
    Trace({w.name: trace_workload(job, w, s) for w, s in pairs}).save(folder)
    return JobEnding("ok")
