"""Timings and runs of earlier work on a task, read without writing a byte: estimates must leave no trace."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from forewarp.archive.store import spend_of
from forewarp.core.budget import Spend
from forewarp.core.errors import ArchiveError

LATEST = 200
"""Most measurements that are looked at."""

LATEST_RUNS = 20


@dataclass(frozen=True, slots=True)
class PastRun:
    """One earlier run: its settings, and what it spent."""

    id: str
    settings: Mapping[str, Any]
    spend: Spend


@dataclass(frozen=True, slots=True)
class TaskHistory:
    """Past work on one task and target, the latest first: seconds of the device per measurement, and runs.

    Replayed runs and measurements are left out: they took no time of that device now.
    """

    device_s: tuple[float, ...] = ()
    runs: tuple[PastRun, ...] = ()


_MEASURED = """
SELECT device_s FROM measurement
WHERE task = ? AND target = ? AND state = 'done' AND device_s > 0 AND json_extract(data, '$.source') IS NOT 'replay'
ORDER BY id DESC LIMIT ?
"""
_RUNS = """
SELECT r.id, r.settings FROM run r
WHERE r.task = ? AND r.target = ? AND json_extract(r.settings, '$.proposer') IS NOT 'pool'
ORDER BY r.created DESC, r.rowid DESC LIMIT ?
"""
_SPENT = "SELECT kind, sum(amount) FROM spend WHERE run = ? GROUP BY kind"


def history(path: Path, task_sha256: str, target_name: str) -> TaskHistory:
    """Read the history of a task on a target from the file `path`, empty if it is missing; raises `ArchiveError`."""
    if not path.is_file():
        return TaskHistory()
    # SQLite leaves two files beside an archive in WAL mode that it opens for reading, except if told that nobody
    # writes; a log that is there already means that somebody may, or was killed.
    alone = not path.with_name(path.name + "-wal").exists()
    where = f"file:{quote(str(path.absolute()))}?mode=ro{'&immutable=1' if alone else ''}"
    try:
        with closing(sqlite3.connect(where, uri=True)) as db:
            if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'run'").fetchone() is None:
                return TaskHistory()
            these = (task_sha256, target_name)
            runs = db.execute(_RUNS, (*these, LATEST_RUNS)).fetchall()
            return TaskHistory(
                tuple(float(s) for (s,) in db.execute(_MEASURED, (*these, LATEST))),
                tuple(PastRun(i, json.loads(s), spend_of(dict(db.execute(_SPENT, (i,))))) for i, s in runs),
            )
    except sqlite3.Error as e:
        raise ArchiveError(f"the archive {path} cannot be read: {e}", hint="pass --archive PATH of another one") from e
