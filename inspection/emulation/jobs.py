"""The job that runs a candidate on the CPU to find what is wrong with it: interpreted or emulated."""

from __future__ import annotations

from pathlib import Path

from forewarp.gpu_runner.worker.channel import Channel
from forewarp.gpu_runner.worker.task_confinement import job_folder, run_confined
from forewarp.inspection.emulation.emulator import build
from forewarp.inspection.emulation.emulator.check import EmulatorCheck
from forewarp.inspection.emulation.emulator.run import LOOK_RESERVED
from forewarp.inspection.emulation.interpreter.check import InterpreterCheck
from forewarp.inspection.jobs import CheckJob

_KINDS = {
    "CPU-interpreted": (InterpreterCheck, 0),
    "CPU-emulated": (EmulatorCheck, 2 * LOOK_RESERVED),
}
"""Checks, with the address space in bytes that their programs take and do not use."""


def check(job: CheckJob, answer: Channel) -> None:
    """Answer with the check of a candidate, which runs in confined children, as the reference does."""
    kind, reserved = _KINDS[job.how]
    reads = [job.cache] if kind is EmulatorCheck else []
    if reads and not build.available():
        # Whoever runs a task's code may read the cache, but not fill it.
        build.keep_device(build.compiler(), job_folder(job), Path(job.cache))
    answer.send(run_confined(job, job.device, lambda: kind(job).check(), reads, reserved))
