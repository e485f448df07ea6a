"""Processes of this host: when one began, and ending one with everything below it."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path


def began(pid: int) -> str:
    """Return when a process began, so that a recycled number is not taken for it; "" where there is none."""
    fields = _fields(pid)
    return fields[19] if fields and fields[0] != "Z" else ""


def over(pid: int) -> bool:
    """Return whether nothing of a process runs any more: its locks and files are held until its last thread ended."""
    fields = _fields(pid)
    try:
        return not fields or (fields[0] == "Z" and len(os.listdir(f"/proc/{pid}/task")) == 1)
    except OSError:
        return True


def below(pid: int) -> list[int]:
    """Return all processes that descend from one, its children first; those in sessions of their own, too."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (fields := _fields(int(folder.name))):
            children.setdefault(int(fields[1]), []).append(int(folder.name))
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
    """Kill a process and all its descendants. It is stopped first, so that it starts no more of them.

    A process that ends itself this way is not: it could not go on.
    """
    if pid != os.getpid():
        pause(pid)
    kill_below(pid)
    _signal(pid, signal.SIGKILL)


def pause(pid: int) -> None:
    """Stop a process until it is killed, or `go_on` is called."""
    _signal(pid, signal.SIGSTOP)


def go_on(pid: int) -> None:
    """Let a process go on that was stopped."""
    _signal(pid, signal.SIGCONT)


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _fields(pid: int) -> list[str]:
    """Return what /proc says of a process from its state on; empty where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
