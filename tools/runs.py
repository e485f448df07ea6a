"""Looking at runs and stopping them from another process."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from forewarp.core.errors import UsageError
from forewarp.tools import session as sessions
from forewarp.tools.parts import Place
from forewarp.tools.run_report import SearchResult, lost, report


@dataclass(frozen=True, slots=True)
class Look:
    """A run's result so far; `lost` where it counts as running but its process is gone."""

    result: SearchResult
    lost: bool


def archive_path(place: Place) -> Path:
    """Return the archive file."""
    return sessions.archive_path(place).absolute()


def home(place: Place) -> Path:
    """Return the folder of the archive, where runs that were started from afar leave their files."""
    return archive_path(place).parent


def look(place: Place, run_id: str) -> Look:
    """Return what a run came to so far; raises `UsageError` for an unknown one."""
    with sessions.existing_archive(place, run_id) as archive:
        row = archive.run(run_id)
        return Look(report(archive, row.id), lost=lost(row))


def stop(place: Place, run_id: str) -> None:
    """Interrupt the process that works on a run, as Ctrl-C would; raises `UsageError` if there is none here."""
    with sessions.existing_archive(place, run_id) as archive:
        row = archive.run(run_id)
    host, _, rest = row.owner.partition(":")
    if row.status != "running" or not rest or lost(row):
        raise UsageError(
            f"nothing works on run {row.id}; it is {row.status}", hint=f"`forewarp show {row.id}` says more"
        )
    if host != os.uname().nodename:
        raise UsageError(f"run {row.id} is worked on by {host}", hint="stop it there")
    os.kill(int(rest.partition(":")[0]), signal.SIGINT)
