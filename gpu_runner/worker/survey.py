"""Survey of the protections on this machine: every confinement is taken and tried, in a process of its own.

    python -m forewarp.gpu_runner.worker.survey

Prints one JSON document: the protections in force by what is confined.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from forewarp.gpu_runner.worker import protections, toolchain
from forewarp.gpu_runner.worker.least import INSIST, Unprotected
from forewarp.gpu_runner.worker.linux import children_in_own_pid_namespace
from forewarp.gpu_runner.worker.protections import Confinement
from forewarp.gpu_runner.worker.task_confinement import confine_task
from forewarp.gpu_runner.worker.watch import run_watched

_MEMORY = 8 << 30


def survey() -> dict[str, list[str]]:
    """Return the protections in force around a candidate, a task's code and a compiler on the CPU."""
    os.environ.pop(INSIST, None)
    toolchain.readable("cpu")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o711)
        compiler = Confinement(str(folder), memory=_MEMORY, drop_user=False, reads_only=toolchain.readable("cpu"))
        return {
            "candidate": _candidate(folder),
            "task": _watched(lambda contained, keep: confine_task(folder, "cpu", contained=contained, keep={keep})),
            "compiler": _watched(lambda contained, _: protections.take(replace(compiler, own_processes=contained))),
        }


def _candidate(folder: Path) -> list[str]:
    """Confine a process as a cell is."""
    own, (reading, writing) = folder / "cell", os.pipe()
    own.mkdir()
    with children_in_own_pid_namespace(wanted=True) as contained:
        pid = os.fork()
        if pid == 0:
            how = Confinement(
                str(own),
                memory=_MEMORY,
                keep={writing},
                folder_bytes=1 << 20,
                own_processes=contained,
                reads_only=toolchain.readable("cpu"),
            )
            try:
                if not contained:  # as the judge does
                    protections.hide_files(str(folder), [])
                    protections.keep_signals_inside()
                _tell(lambda: protections.take(how), writing)
            finally:
                os._exit(0)
    in_force = _heard(reading, writing)
    os.waitpid(pid, 0)
    return [*in_force, *([protections.OWN_PROCESSES] if contained else [])]


def _watched(confine: Callable[[bool, int], list[str]]) -> list[str]:
    """Confine a process that is watched, given whether it is contained and the descriptor that it has to keep."""
    reading, writing = os.pipe()
    run_watched(lambda contained: _tell(lambda: confine(contained, writing), writing), _MEMORY, passes_on=False)
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
        return [str(name) for name in json.loads(told.read() or "[]")]


if __name__ == "__main__":
    json.dump(survey(), sys.stdout)
