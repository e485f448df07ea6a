"""Loading of the reference that a job carries, in whichever format it is."""

from __future__ import annotations

import sys
from dataclasses import replace

from forewarp.core.values import Workload
from forewarp.gpu_runner.worker import kernelbot
from forewarp.gpu_runner.worker.problem import Problem, ReferenceFailed
from forewarp.gpu_runner.worker.requests import TaskJob


def load_problem(job: TaskJob, workload: Workload, weight_seed: int) -> Problem:
    """Load the reference of a job's task; where the job has `signatures`, with what the one of the workload says."""
    task = job.task
    try:
        if task.format == "kernelbench":
            loaded = Problem.load(task.reference, workload, weight_seed, task.mode)
            loaded = replace(loaded, gradients=task.gradients)
        else:
            loaded = kernelbot.load(task.reference, task.files, workload, weight_seed, job.device)
    except ModuleNotFoundError as e:
        if e.name is None:  # a package's own words, such as of a module of its own
            raise ReferenceFailed(f"what the reference imports cannot be: {e}") from e
        raise ReferenceFailed(
            f"the reference imports the package {e.name}, which {sys.executable} does not have; install it there, "
            "or pass --python PATH of an environment that has it"
        ) from e
    known = next((s for s in job.signatures if s.workload == workload.name), None)
    if known is None:
        return loaded
    return replace(loaded, state=known.state, random=known.random, outputs=known.outputs, backward=known.backward)
