"""Which protections are in force on this machine: every confinement is taken and tried, in a process of its own.

    python -m forewarp.gpu_runner.worker.survey

Prints one JSON document: the protections in force by what is confined.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from forewarp.gpu_runner.worker import protections, toolchain
from forewarp.gpu_runner.worker.least import INSIST, Unprotected
from forewarp.gpu_runner.worker.privileges import children_in_own_pid_namespace
from forewarp.gpu_runner.worker.protections import Confinement
from forewarp.gpu_runner.worker.task_confinement import confine_task
from forewarp.gpu_runner.worker.watched import run_watched

_MEMORY = 8 << 30


def survey() -> dict[str, list[str]]:
    """Return the protections in force around a candidate, a task's code and a compiler on the CPU."""
    os.environ.pop(INSIST, None)
    toolchain.readable("cpu")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o711)
        return {"candidate": _candidate(folder), "task": _task(folder), "compiler": _compiler(folder)}


def _candidate(folder: Path) -> list[str]:
    """Confine a process as a cell is."""
    own = folder / "cell"
    own.mkdir()
    reading, writing = os.pipe()
    with children_in_own_pid_namespace(wanted=True) as contained:
        pid = os.fork()
        if pid == 0:
            reads = toolchain.readable("cpu")
            keep = {writing}
            how = Confinement(
                str(own), memory=_MEMORY, keep=keep, folder_bytes=1 << 20, own_processes=contained, reads_only=reads
            )
            try:
                _tell(lambda: protections.take(how), writing)
            finally:
                os._exit(0)
    in_force = _heard(reading, writing)
    os.waitpid(pid, 0)
    return [*in_force, *([protections.OWN_PROCESSES] if contained else [])]


def _task(folder: Path) -> list[str]:
    """Confine a process as a task's code is."""
    reading, writing = os.pipe()

    def act(contained: bool) -> None:
        _tell(lambda: confine_task(folder, "cpu", contained=contained, keep={writing}), writing)

    run_watched(act, _MEMORY, passes_on=False)
    return _heard(reading, writing)


def _compiler(folder: Path) -> list[str]:
    """Confine a process as one that compiles is."""
    reading, writing = os.pipe()

    def act(contained: bool) -> None:
        reads = toolchain.readable("cpu")
        how = Confinement(str(folder), memory=_MEMORY, own_processes=contained, drop_user=False, reads_only=reads)
        _tell(lambda: protections.take(how), writing)

    run_watched(act, _MEMORY, passes_on=False)
    return _heard(reading, writing)


def _tell(confine: Callable[[], list[str]], writing: int) -> None:
    try:
        in_force = confine()
    except Unprotected as e:
        in_force = list(e.in_force)
    os.write(writing, json.dumps(in_force).encode())


def _heard(reading: int, writing: int) -> list[str]:
    os.close(writing)
    with os.fdopen(reading) as told:
        text = told.read()
    return [str(name) for name in json.loads(text)] if text else []


if __name__ == "__main__":
    json.dump(survey(), sys.stdout)
