"""A line for the shell in a process that is confined like strangers' code, but for one folder that it may change.

The process is started by `argv`; a child of it confines itself, writes what holds to a pipe that the line never sees,
and becomes the shell. Run as a program it is that process.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from forewarp.gpu_runner.worker import environment, memory, protections, toolchain
from forewarp.gpu_runner.worker.least import Unprotected, missing, require
from forewarp.gpu_runner.worker.protections import Confinement
from forewarp.gpu_runner.worker.watch import run_watched

REFUSED = 125
"""Exit status where the process could not be confined, and the line was not run."""

_CPU_S = 600
_BESIDE = 4 << 30


def argv(folder: Path, own: Path, report: int, line: str) -> list[str]:
    """Return the command that runs a line in `folder`; `own` is for its temporary files, `report` a pipe's end.

    Start it with `environment.allowed` variables only: the rest is refused as secrets.
    """
    # -P: what lies in the folder where it starts must not be imported before the process is confined.
    return [sys.executable, "-P", "-m", __name__, str(folder), str(own), str(report), line]


def variables() -> dict[str, str]:
    return environment.allowed(os.environ)


def read_report(text: bytes) -> tuple[list[str], list[str]]:
    """Return the protections that held, and those of the least that were missing, from what came through the pipe."""
    try:
        told = json.loads(text)
    except ValueError:
        return [], ["the process did not start"]
    return list(told["in_force"]), list(told["missing"])


def _confine(folder: str, own: str, *, contained: bool) -> list[str]:
    device = "cuda" if Path("/dev/nvidiactl").exists() else "cpu"
    free = memory.host_available()
    how = Confinement(
        own,
        files=[folder, *protections.device_files(device)],
        memory=None if device == "cuda" else (1 << 62 if free is None else free + _BESIDE),
        own_processes=contained,
        drop_user=False,
        reads_only=[*toolchain.readable(device), folder],
        cautious=device == "cuda",
        stoppable=True,
        cpu_s=_CPU_S * (os.cpu_count() or 1),
    )
    return require(protections.take(how))


def _become_shell(folder: str, own: str, report: int, line: str, *, contained: bool) -> None:
    os.chdir(own)
    try:
        told = {"in_force": _confine(folder, own, contained=contained), "missing": []}
    except Unprotected as e:
        told = {"in_force": list(e.in_force), "missing": list(missing(e.in_force))}
    os.write(report, json.dumps(told).encode())
    os.close(report)
    if told["missing"]:
        os._exit(REFUSED)
    environment.use_folder(own)
    os.chdir(folder)
    os.execv("/bin/sh", ["sh", "-c", line])


def main(arguments: Sequence[str]) -> None:
    """Have the line run in a process that is watched: what it leaves behind ends with it."""
    folder, own, report, line = arguments
    run_watched(lambda contained: _become_shell(folder, own, int(report), line, contained=contained), None)


if __name__ == "__main__":
    main(sys.argv[1:])
