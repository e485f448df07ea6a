"""Processes of this host: when one began, and ending one with everything below it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path
from typing import NamedTuple


class _Process(NamedTuple):
    state: str
    parent: int
    began: str


_PROC = Path("/proc/self/stat")


def began(pid: int) -> str:
    """Return when a process began, so that a recycled number is not taken for it; "" where there is none."""
    process = _process(pid)
    return process.began if process and process.state != "Z" else ""


def over(pid: int) -> bool:
    """Return whether nothing of a process runs any more: its locks and files are held until its last thread ended."""
    process = _process(pid)
    try:
        return not process or (process.state == "Z" and len(os.listdir(f"/proc/{pid}/task")) == 1)
    except OSError:
        return True


def below(pid: int) -> list[int]:
    """Return all processes that descend from one, its children first; those in sessions of their own, too."""
    children: dict[int, list[int]] = {}
    for number, process in _processes().items():
        children.setdefault(process.parent, []).append(number)
    found: list[int] = []
    rest = list(children.get(pid, ()))
    while rest:
        found.append(rest.pop(0))
        rest += children.get(found[-1], ())
    return found


def kill_below(pid: int) -> None:
    """Kill all descendants of a process, but not the process itself."""
    for other in below(pid):
        _signal(other, signal.SIGKILL)


def kill_tree(pid: int) -> None:
    """Kill a process, stopped first unless it is this one, and all its descendants."""
    if pid != os.getpid():
        pause(pid)
    kill_below(pid)
    _signal(pid, signal.SIGKILL)


def pause(pid: int) -> None:
    """Stop a process until it is killed, or `go_on` is called."""
    _signal(pid, signal.SIGSTOP)


def go_on(pid: int) -> None:
    _signal(pid, signal.SIGCONT)


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _process(pid: int) -> _Process | None:
    """Return what is known of a process; None where there is none."""
    return _of_proc(pid) if _PROC.exists() else _of_ps("-p", str(pid)).get(pid)


def _of_proc(pid: int) -> _Process | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return _Process(fields[0], int(fields[1]), fields[19])


def _processes() -> dict[int, _Process]:
    if not _PROC.exists():
        return _of_ps("-A")
    numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return {number: process for number in numbers if (process := _of_proc(number))}


def _of_ps(*which: str) -> dict[int, _Process]:
    """Ask ps, as on a Mac, which has no /proc."""
    command = ["ps", *which, "-o", "pid=,ppid=,state=,lstart="]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"LC_ALL": "C"})
    rows = (line.split(maxsplit=3) for line in done.stdout.splitlines())
    return {int(pid): _Process(state[0], int(parent), began.replace(":", ".")) for pid, parent, state, began in rows}
