"""Lease on a run: at most one living process works on it, and in that process at most one `Search`."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Generator

from forewarp.archive.rows import RunRow
from forewarp.archive.store import Archive
from forewarp.core import processes
from forewarp.core.errors import UsageError

_held: set[str] = set()
_lock = threading.Lock()


def check(run: RunRow) -> None:
    """Raise `UsageError` if a living process works on the run; one on another host counts as living."""
    if run.status != "running" or not run.owner:
        return
    host, pid, began = run.owner.split(":")
    if host == socket.gethostname():
        alive = run.id in _held if int(pid) == os.getpid() else processes.began(int(pid)) == began != ""
    else:
        alive = True
    if alive:
        raise UsageError(
            f"run {run.id} is being worked on by process {pid} on {host}",
            hint="wait for it or stop it first; a run on another host must be stopped there",
        )


def owner() -> str:
    pid = os.getpid()
    return f"{socket.gethostname()}:{pid}:{processes.began(pid)}"


@contextlib.contextmanager
def hold(archive: Archive, run: str) -> Generator[None]:
    """Mark the run as running in this process; raises `UsageError` if another living one works on it."""
    with _lock:
        with archive.transaction():
            check(archive.run(run))
            archive.set_status(run, "running", owner=owner())
        _held.add(run)
    try:
        yield
    finally:
        with _lock:
            _held.discard(run)
