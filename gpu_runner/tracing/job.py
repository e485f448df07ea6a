"""The job `trace`: in a confined child, trace every workload of a module into a folder."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from forewarp.core import serde
from forewarp.core.values import Signature, Target, Workload
from forewarp.gpu_runner.tracing.program import Setting, trace_workload
from forewarp.gpu_runner.tracing.values import Trace


def trace(job: dict[str, Any], folder: Path) -> None:
    """Write the trace of `job` and its cubins into `folder`; `folder / "cache"` is for temporary files."""
    # No device is there to be used, and one that is there must not be: somebody may be measuring on it.
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.environ.pop("TRITON_INTERPRET", None)
    tempfile.tempdir = str(folder / "cache")
    if "file" in job:
        from forewarp.gpu_runner.tracing.files import job as files

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
