"""Jobs that run a candidate on the CPU to find what is wrong with it: in Triton's interpreter, or in the emulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from forewarp.core import serde
from forewarp.core.checking import Check
from forewarp.gpu_runner.worker.channel import Channel
from forewarp.gpu_runner.worker.task_confinement import job_folder, run_confined
from forewarp.inspection.emulation.emulator import build, device
from forewarp.inspection.emulation.emulator.job import emulate as emulated
from forewarp.inspection.emulation.interpreter.job import interpret as interpreted


def interpret(job: dict[str, Any], answer: Channel) -> None:
    """Answer with the check of a Triton or Python candidate, run in Triton's interpreter in a confined child.

    The reference that it is compared with runs in another one.
    """
    answer.send(_checked(job, interpreted))


def emulate(job: dict[str, Any], answer: Channel) -> None:
    """Answer with the check of a CUDA candidate, run on the CPU in confined children; so is the reference."""
    if not build.available():
        # Whoever runs a task's code may read the cache, but not fill it.
        device.keep(build.compiler(), job_folder(job), Path(job["cache"]))
    answer.send(_checked(job, emulated, [job["cache"]]))


def _checked(
    job: dict[str, Any], check: Callable[[dict[str, Any]], Check], reads: Sequence[str] = ()
) -> dict[str, Any]:
    document = run_confined(job, lambda job: {"check": serde.to_data(check(job))}, reads)
    return document.get("check", document)
