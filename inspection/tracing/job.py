"""The job that traces every workload of a module into a folder, in a confined child."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from forewarp.core import serde
from forewarp.core.values import Signature, Target, Workload
from forewarp.gpu_runner.worker.channel import Channel
from forewarp.gpu_runner.worker.jobs import confine, watched
from forewarp.inspection.tracing.files import job as files
from forewarp.inspection.tracing.program import Setting, trace_workload
from forewarp.inspection.tracing.values import Trace


def run(job: dict[str, Any], answer: Channel) -> None:
    """Trace a module's launches into `job["folder"]`, confined: the module and the reference run here."""
    watched(job, answer, _trace, "module")


def _trace(job: dict[str, Any], folder: Path, answer: Channel, contained: bool) -> None:
    guards = confine(job, folder, contained)
    trace(job, folder)
    answer.send({"status": "ok", "log": "", "protections": guards})


def trace(job: dict[str, Any], folder: Path) -> None:
    """Write the trace of `job` and its cubins into `folder`; `folder / "cache"` is for temporary files."""
    # No device is there to be used, and one that is there must not be: somebody may be measuring on it.
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.environ.pop("TRITON_INTERPRET", None)
    tempfile.tempdir = str(folder / "cache")
    if "file" in job:
        files.trace(job, folder)
        return
    setting = Setting(
        source=job["candidate"]["source"],
        job=job,
        target=serde.from_data(Target, job["target"]),
        folder=folder,
        limit_s=job["workload_s"],
        backward=job.get("backward", False),
    )
    workloads = [serde.from_data(Workload, w) for w in job["workloads"]]
    signatures = [serde.from_data(Signature, s) for s in job["signatures"]]
    traced = {w.name: trace_workload(setting, w, s) for w, s in zip(workloads, signatures, strict=True)}
    Trace(traced).save(folder)
