"""Jobs as the worker finds them."""

from __future__ import annotations

import sys
import typing

import pytest

from forewarp.core.values import Candidate, Task, Workload
from forewarp.gpu_runner.devices import known_targets
from forewarp.gpu_runner.worker import requests, server
from forewarp.gpu_runner.worker.requests import ConfinedFolder, WorkerJob
from forewarp.inspection.jobs import TraceJob
from forewarp.tuning import jobs as tuning


def every(kind: type[WorkerJob]) -> list[type[WorkerJob]]:
    """Return the jobs of a kind, but the classes that `slots` has replaced by others of their name."""
    found = [k for one in kind.__subclasses__() for k in (one, *every(one))]
    return [k for k in found if "run" in vars(k) and vars(sys.modules[k.__module__])[k.__name__] is k]


assert tuning.TimeJob in every(WorkerJob)


@pytest.mark.parametrize("kind", every(WorkerJob))
def test_the_worker_finds_the_function_of_each_job_which_takes_it(kind: type[WorkerJob]) -> None:
    hints = typing.get_type_hints(server.entry(kind.run))
    assert issubclass(kind, hints["job"])


def test_a_job_arrives_as_it_was_sent() -> None:
    task = Task("t", "t", "class Model: ...", {"cuda": (Workload("w", {"N": 3}),)}, files={"a.py": ""})
    folder = ConfinedFolder("/tmp/x", 1 << 30, 60, ("/usr/share",))
    candidate = Candidate("class ModelNew: ...", "python")
    job = TraceJob(
        task=task,
        target=known_targets()["h200"],
        candidate=candidate,
        folder=folder,
        workload_s=30.0,
        log="/tmp/job1.log",
    )
    assert requests.from_document(requests.to_document(job)) == job
    assert (job.device, job.workloads) == ("cuda", task.workloads["cuda"])
