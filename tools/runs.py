"""Access to runs from other processes: result, progress, spending, and cancelling them."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from forewarp.archive.rows import RunRow, RunStatus
from forewarp.core import processes
from forewarp.core.budget import Budget, Spend
from forewarp.core.errors import UsageError
from forewarp.search.settings import stored
from forewarp.tools import session as sessions
from forewarp.tools.parts import Place
from forewarp.tools.run_report import SearchResult, lost, report

GRACE_S = 0.8
"""Seconds that an interrupted run has to release the device by itself."""


@dataclass(frozen=True, slots=True)
class Glance:
    """Progress of a run that is cheap to read; `best` is the highest speed-up so far."""

    run_id: str
    status: RunStatus
    lost: bool
    task: str
    spent: Spend
    budget: Budget
    best: float | None

    @property
    def ended(self) -> bool:
        """True if no process works on it any more."""
        return self.status != "running" or self.lost


def archive_path(place: Place) -> Path:
    return sessions.archive_path(place).absolute()


def home(place: Place) -> Path:
    """Return the folder of the archive, where servers and conversations keep their files."""
    return archive_path(place).parent


def look(place: Place, run_id: str) -> tuple[SearchResult, bool]:
    """Return a run's result so far, and whether it counts as running although its process is gone.

    Raises `UsageError` for an unknown run.
    """
    with sessions.existing_archive(place, run_id) as archive:
        row = archive.run(run_id)
        return report(archive, row.id), lost(row)


def glance(place: Place, run_id: str) -> Glance:
    """Return the progress of a run, at little cost; raises `UsageError` for an unknown one."""
    with sessions.existing_archive(place, run_id) as archive:
        row = archive.run(run_id)
        best = archive.best(row.id)
        speedup = best.measurement.speedup if best and best.measurement else None
        budget = stored(row.settings).budget
        gone = lost(row)
        spent = archive.spend(row.id, over=gone)
        return Glance(row.id, row.status, gone, row.task.name, spent, budget, speedup)


def cancel(place: Place, run_id: str) -> None:
    """End a run without waiting for the measurement in progress, so that the device is free within about a second.

    The run keeps its best so far and counts as interrupted. Raises `UsageError` if no process here works on it.
    """
    with sessions.existing_archive(place, run_id) as archive:
        row, pid = _worked_on(archive.run(run_id))
        # The first SIGINT asks the run to end after the measurement, the second one to end now.
        for _ in range(2):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)
            time.sleep(0.1)
        deadline = time.monotonic() + GRACE_S
        while time.monotonic() < deadline:
            if archive.run(row.id).status != "running":
                # It may still be writing its files, which does not need the processes that held the device.
                processes.kill_below(pid)
                return
            time.sleep(0.05)
        processes.kill_tree(pid)
        if archive.run(row.id).status == "running":
            archive.set_status(row.id, "interrupted", "cancelled")


def _worked_on(row: RunRow) -> tuple[RunRow, int]:
    """Return the run and the id of the process on this host that works on it; raises `UsageError` without one."""
    host, _, rest = row.owner.partition(":")
    if row.status != "running" or not rest or lost(row):
        raise UsageError(
            f"nothing works on run {row.id}; it is {row.status}", hint=f"`forewarp show {row.id}` says more"
        )
    if host != os.uname().nodename:
        raise UsageError(f"run {row.id} is worked on by {host}", hint="stop it there")
    return row, int(rest.partition(":")[0])
