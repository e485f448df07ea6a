"""Verbs `archive check` and `archive repair`: find the readable rows of a damaged archive, and save them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from forewarp.archive import salvage
from forewarp.core.errors import ArchiveError
from forewarp.search import events
from forewarp.search.settings import stored
from forewarp.tools import session
from forewarp.tools.parts import Place
from forewarp.tools.wording import counted


class ArchiveState(BaseModel):
    """Readable and lost rows of an archive; `damaged` is where the damaged file went, "" if it was not moved.

    `rows` are the readable rows per table, `lost` one sentence per loss.
    """

    model_config = ConfigDict(frozen=True)

    summary: str
    archive: str
    state: Literal["sound", "damaged", "repaired"]
    rows: Mapping[str, int]
    lost: list[str]
    damaged: str = ""


def check_archive(place: Place) -> ArchiveState:
    """Read every row of the archive and say what is lost. Raises `UsageError` where there is no archive."""
    return _state(salvage.examine(_path(place), _check))


def repair_archive(place: Place) -> ArchiveState:
    """Keep the readable rows in a new file and move the damaged one beside it; raises `ArchiveError`, `UsageError`."""
    return _state(salvage.repair(_path(place), _check))


def _path(place: Place) -> Path:
    path = session.archive_path(place)
    if not path.exists():
        session.existing_archive(place)  # raises the error for a missing archive
    if not path.is_file():
        raise ArchiveError(f"{path} is no file", hint="pass --archive PATH of an archive")
    return path


def _check(table: str, row: Mapping[str, Any]) -> None:
    if table == "event":
        events.from_data(row["type"], json.loads(row["data"]))
    elif table == "run":
        stored(json.loads(row["settings"]))


def _state(found: salvage.Salvage) -> ArchiveState:
    rows = ", ".join(counted(n, table) for table, n in found.rows.items() if table in ("run", "measurement"))
    if found.sound:
        state, summary = "sound", f"The archive {found.path} is sound: {rows}."
    elif found.damaged is None:
        state, summary = "damaged", f"The archive {found.path} is damaged; `forewarp archive repair` would keep {rows}."
    else:
        state = "repaired"
        summary = f"The archive {found.path} is repaired: {rows} are kept. The damaged file is {found.damaged}."
    return ArchiveState(
        summary=summary,
        archive=str(found.path),
        state=state,
        rows=found.rows,
        lost=list(found.lost),
        damaged=str(found.damaged or ""),
    )
