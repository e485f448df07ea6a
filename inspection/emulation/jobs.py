"""Jobs that run a candidate on the CPU to find what is wrong with it: interpreted, emulated, or with sanitizers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from forewarp.gpu_runner.worker.channel import Channel
from forewarp.gpu_runner.worker.task_confinement import job_folder, run_confined
from forewarp.inspection.emulation.check import Checker
from forewarp.inspection.emulation.emulator import build
from forewarp.inspection.emulation.emulator.check import EmulatorCheck
from forewarp.inspection.emulation.emulator.run import LOOK_RESERVED
from forewarp.inspection.emulation.emulator.sanitized import RESERVED, SanitizedCheck
from forewarp.inspection.emulation.interpreter.check import InterpreterCheck
from forewarp.inspection.jobs import CheckJob, EmulateJob, InterpretJob, SanitizeJob


def interpret(job: InterpretJob, answer: Channel) -> None:
    """Answer with the check of a Triton or Python candidate, run in Triton's interpreter in a confined child.

    The reference that it is compared with runs in another one.
    """
    answer.send(_checked(job, InterpreterCheck))


def emulate(job: EmulateJob, answer: Channel) -> None:
    """Answer with the check of a CUDA candidate, run on the CPU in confined children; so is the reference."""
    if not build.available():
        # Whoever runs a task's code may read the cache, but not fill it.
        build.keep_device(build.compiler(), job_folder(job), Path(job.cache))
    answer.send(_checked(job, EmulatorCheck, [job.cache], 2 * LOOK_RESERVED))


def sanitize(job: SanitizeJob, answer: Channel) -> None:
    """Answer with the check of a C++ candidate, built with sanitizers and run in confined children."""
    answer.send(_checked(job, SanitizedCheck, reserved=2 * RESERVED))


def _checked(job: CheckJob, kind: type[Checker], reads: Sequence[str] = (), reserved: int = 0) -> Any:
    return run_confined(job, job.device, lambda: kind(job).check(), reads, reserved)
