"""The job that describes a task: what a workload's inputs, weights and outputs are, and what computing them takes.

Where the GPU that a reference is for is not there, its shapes are enough for most. Where the elements of inputs decide
on shapes, or torch knows no shape for an operation, it runs on the processor, if its values fit and that is quick.
"""

from __future__ import annotations

import json
import os
import select
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

from forewarp.core import serde
from forewarp.core.values import Signature, Target, Workload
from forewarp.gpu_runner.worker import memory, problem
from forewarp.gpu_runner.worker.channel import Channel
from forewarp.gpu_runner.worker.linux import end_of
from forewarp.gpu_runner.worker.loading import load_problem
from forewarp.gpu_runner.worker.problem import ReferenceFailed, tensors_of
from forewarp.gpu_runner.worker.requests import TaskFailure, TaskJob
from forewarp.gpu_runner.worker.signatures import describe_job
from forewarp.gpu_runner.worker.task_confinement import run_confined
from forewarp.gpu_runner.worker.tracebacks import first_line, format_error
from forewarp.inspection.jobs import DescribeJob
from forewarp.inspection.tracing.masquerade import masquerading, shapes_only
from forewarp.inspection.tracing.recorder import Recorder

MOST_BYTES = 2 << 30
SMALL_BYTES = 64 << 20
"""Bytes up to which values are tried before shapes: they tell more, such as whether outputs are read as well."""
VALUES_S, TRIAL_S = 30.0, 3.0
"""Most seconds that a reference may take on the processor; where shapes have not been tried yet, the second."""


def describe(job: TaskJob, workload: Workload, *, flops: bool = True) -> Signature:
    """Work out a task's signature, also where the device that it is for is not there; see `describe_job`."""
    return describe_job(job, workload, flops=flops, without_device=_without_device)


def run(job: DescribeJob, answer: Channel) -> None:
    """Answer with one signature per workload, or with the reference's error; the task's code runs confined."""
    if job.device == "cpu":
        memory.bound_host()  # here: confined, the process could not read what its control groups leave it
    answer.send(run_confined(job, job.device, lambda: _describe(job)))


def _describe(job: DescribeJob) -> dict[str, list[Signature]] | TaskFailure:
    signatures: list[Signature] = []
    for workload in job.workloads:
        try:
            signatures.append(describe(job, workload))
        except problem.ReferenceFailed as e:
            return TaskFailure(str(e))
        except Exception as e:
            return TaskFailure(f"{type(e).__name__}: {e}", format_error(e, 4))
    return {"signatures": signatures}


def _without_device(
    describe: Callable[..., Signature], job: TaskJob, workload: Workload, *, flops: bool = True
) -> Signature:
    """Describe a reference on the CPU, where "cuda" means the CPU, too; raises `ReferenceFailed`."""
    target = job.target

    def by_shapes() -> Signature:
        with masquerading(target, _no_recorder()) as mode, shapes_only(mode):
            return describe(load_problem(job, workload, 0), "cpu", flops=flops, real=False)

    def by_shapes_of_values() -> Signature:
        with masquerading(target, _no_recorder()) as mode:
            loaded = load_problem(job, workload, 0)
            drawn = loaded.inputs(0, "cpu")
            with shapes_only(mode):
                values = [
                    torch.empty_strided(v.shape, v.stride(), dtype=v.dtype) if isinstance(v, torch.Tensor) else v
                    for v in drawn
                ]
                return describe(loaded, "cpu", flops=flops, real=False, values=values)

    def by_values() -> Signature:
        with masquerading(target, _no_recorder()):
            return describe(load_problem(job, workload, 0), "cpu", flops=flops)

    size = _size(job, workload, target)
    problems: list[str] = []
    ways: list[tuple[str, Callable[[], Signature]]] = [
        ("with shapes alone", by_shapes),
        ("with the shapes of its inputs", lambda: _bounded(by_shapes_of_values, size)),
        ("with values", lambda: _bounded(by_values, size)),
    ]
    if size is not None and size <= SMALL_BYTES:
        ways.insert(0, ("with values", lambda: _bounded(by_values, size, TRIAL_S)))
    for how, way in ways:
        try:
            return way()
        except Exception as e:  # in what way it fails without elements is up to the reference
            if isinstance(e, ReferenceFailed) and isinstance(e.__cause__, ImportError):
                raise
            problems.append(f"{how}: {type(e).__name__}: {first_line(e)}")
    raise ReferenceFailed(
        "the reference cannot be described without a GPU.\n"
        + "\n".join(problems)
        + "\nGive the task a smaller workload, or use a machine with a GPU"
    )


def _bounded(describe: Callable[[], Signature], size: int | None, seconds: float = VALUES_S) -> Signature:
    """Describe in a child process, which can be stopped in library calls; raises ValueError."""
    if size is not None and size > MOST_BYTES:
        raise ValueError(
            f"inputs and parameters take {size / 2**30:.1f} GiB, of which {MOST_BYTES >> 30} fit in main memory"
        )
    # Not through a pipe: what the reference starts and leaves running would keep it open.
    with tempfile.TemporaryFile("w+") as report:
        pid = os.fork()
        if pid == 0:
            try:
                try:
                    answer = {"signature": serde.to_data(describe())}
                except Exception as e:  # told to the parent
                    answer = {"error": f"{type(e).__name__}: {e}"}
                json.dump(answer, report)
                report.flush()
            finally:
                os._exit(0)
        ended = end_of(pid)
        ready = select.select([ended], [], [], seconds)[0]
        if not ready:
            os.kill(pid, signal.SIGKILL)
        os.close(ended)
        os.waitpid(pid, 0)
        report.seek(0)
        text = report.read() if ready else ""
    if not text:
        why = f"it takes more than {seconds:.0f} s on this processor" if not ready else "it ended its process"
        raise ValueError(why)
    answer = json.loads(text)
    if "error" in answer:
        raise ValueError(answer["error"])
    return serde.from_data(Signature, answer["signature"])


def _size(job: TaskJob, workload: Workload, target: Target) -> int | None:
    """Return the bytes of inputs and parameters; None where they cannot be told without making them."""
    try:
        with masquerading(target, _no_recorder()) as mode, shapes_only(mode):
            loaded = load_problem(job, workload, 0)
            tensors = [*tensors_of(loaded.inputs(0, "cpu")), *loaded.model("cpu").state_dict().values()]
            return sum(t.numel() * t.element_size() for t in tensors)
    except Exception:  # a reference may ask in any way for values that are not there
        return None


def _no_recorder() -> Recorder:
    return Recorder(Path("/nonexistent"))
