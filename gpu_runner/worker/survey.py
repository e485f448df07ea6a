"""Print, as JSON, the protections in force by what is confined: `python -m forewarp.gpu_runner.worker.survey`."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from forewarp.core.scratch import temporary_folder
from forewarp.gpu_runner.worker import protections, toolchain
from forewarp.gpu_runner.worker.cells import Cell
from forewarp.gpu_runner.worker.least import INSIST, Unprotected
from forewarp.gpu_runner.worker.protections import Confinement
from forewarp.gpu_runner.worker.task_confinement import confine_task
from forewarp.gpu_runner.worker.watch import run_watched

_MEMORY = 8 << 30


def survey() -> dict[str, list[str]]:
    """Return the protections in force around a candidate, a task's code and a compiler on the CPU."""
    os.environ.pop(INSIST, None)
    toolchain.readable("cpu")
    with temporary_folder() as folder:
        folder.chmod(0o711)
        compiler = Confinement(str(folder), memory=_MEMORY, drop_user=False, reads_only=toolchain.readable("cpu"))
        return {
            "candidate": _watched(lambda contained, _: _candidate(folder, contained)),
            "task": _watched(lambda contained, keep: confine_task(folder, "cpu", contained=contained, keep={keep})),
            "compiler": _watched(lambda contained, _: protections.take(replace(compiler, own_processes=contained))),
        }


def _candidate(folder: Path, contained: bool) -> list[str]:
    if not contained:
        protections.hide_files(str(folder), [])
        protections.keep_signals_inside()
    tempfile.tempdir = str(folder)
    how = Confinement(
        "", memory=_MEMORY, folder_bytes=1 << 20, own_processes=True, reads_only=toolchain.readable("cpu")
    )
    cell = Cell(lambda index, message: sys.exit("nothing is loaded"), how, memory=_MEMORY)
    try:
        return cell.protections
    finally:
        cell.close()


def _watched(confine: Callable[[bool, int], list[str]]) -> list[str]:
    reading, writing = os.pipe()

    def tell(contained: bool) -> None:
        try:
            in_force = confine(contained, writing)
        except Unprotected as e:
            in_force = list(e.in_force)
        os.write(writing, json.dumps(in_force).encode())

    run_watched(tell, _MEMORY, passes_on=False)
    os.close(writing)
    with os.fdopen(reading) as told:
        return [str(name) for name in json.loads(told.read() or "[]")]


if __name__ == "__main__":
    json.dump(survey(), sys.stdout)
