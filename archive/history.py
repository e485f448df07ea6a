"""Earlier runs of a task, read without writing a byte: estimates must leave no trace."""

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

LATEST_RUNS = 20


@dataclass(frozen=True, slots=True)
class PastRun:
    """One earlier run: its settings, and what it spent."""

    id: str
    settings: Mapping[str, Any]
    spend: Spend


_RUNS = """
SELECT r.id, r.settings FROM run r
WHERE r.task = ? AND r.target = ? AND json_extract(r.settings, '$.proposer') IS NOT 'pool'
ORDER BY r.created DESC, r.rowid DESC LIMIT ?
"""
_SPENT = "SELECT kind, sum(amount) FROM spend WHERE run = ? GROUP BY kind"


def past_runs(path: Path, task_sha256: str, target_name: str) -> list[PastRun]:
    """Read the latest runs of a task on a target from the file `path`; raises `ArchiveError`.

    There are none where the file is missing. Replayed runs are left out: they took no time of that device now.
    """
    if not path.is_file():
        return []
    # SQLite leaves two files beside an archive in WAL mode that it opens for reading, except if told that nobody
    # writes; a log that is there already means that somebody may, or was killed.
    alone = not path.with_name(path.name + "-wal").exists()
    where = f"file:{quote(str(path.absolute()))}?mode=ro{'&immutable=1' if alone else ''}"
    try:
        with closing(sqlite3.connect(where, uri=True)) as db:
            if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'run'").fetchone() is None:
                return []
            runs = db.execute(_RUNS, (task_sha256, target_name, LATEST_RUNS)).fetchall()
            return [PastRun(i, json.loads(s), spend_of(dict(db.execute(_SPENT, (i,))))) for i, s in runs]
    except sqlite3.Error as e:
        raise ArchiveError(f"the archive {path} cannot be read: {e}", hint="pass --archive PATH of another one") from e
