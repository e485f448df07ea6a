"""Loading of the reference that a job carries, in whichever format it is."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from forewarp.core.values import Workload
from forewarp.gpu_runner.worker import kernelbot
from forewarp.gpu_runner.worker.captured import Call
from forewarp.gpu_runner.worker.problem import Problem, ReferenceFailed


def load_problem(job: Mapping[str, Any], workload: Workload, weight_seed: int) -> Problem:
    """Load the reference that a job carries: `reference`, `mode`; for KernelBot `format`, `files`, `target_kind`.

    Where the job has `signatures`, the problem knows what the one of its workload says.
    """
    try:
        loaded = _load(job, workload, weight_seed)
    except ModuleNotFoundError as e:
        raise ReferenceFailed(
            f"the reference imports the package {e.name}, which {sys.executable} does not have; install it there, "
            "or pass --python PATH of an environment that has it"
        ) from e
    said = next((s for s in job.get("signatures", ()) if s["workload"] == workload.name), None)
    return loaded if said is None else loaded.described(said.get("state", ()), random=said.get("random", False))


def _load(job: Mapping[str, Any], workload: Workload, weight_seed: int) -> Problem:
    if job.get("format", "kernelbench") == "kernelbench":
        loaded = Problem.load(job["reference"], workload, weight_seed, job.get("mode", "train"))
        return replace(loaded, call=Call.of_job(job, workload.name))
    return kernelbot.load(job["reference"], job["files"], workload, weight_seed, job["target_kind"])
