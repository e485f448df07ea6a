"""Opening the archive's SQLite file, transactions, and what went wrong in words."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Generator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from forewarp.archive import migrations
from forewarp.core.errors import ArchiveError

BUSY_TIMEOUT_S = 30.0
_ELSEWHERE = "pass --archive PATH (or set FOREWARP_ARCHIVE) to use another file"


def default_path() -> Path:
    """Return the file that FOREWARP_ARCHIVE names, else `archive.db` in the user's data folder."""
    named = os.environ.get("FOREWARP_ARCHIVE")
    if named:
        return Path(named).expanduser()
    import platformdirs

    return platformdirs.user_data_path("forewarp") / "archive.db"


class Connection:
    """One SQLite file in WAL mode. Any thread may call; other processes may read and write the same file."""

    def __init__(self, path: str | Path) -> None:
        """Open or create the file with its parent folder, and bring its schema up to date; raises `ArchiveError`."""
        self.path = Path(path)
        self._lock = threading.RLock()
        self._depth = 0
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise ArchiveError(f"{self.path.parent} cannot be created: {e.strerror}", hint=_ELSEWHERE) from None
        with self._translated():
            self._db = sqlite3.connect(self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        try:
            with self._translated():
                self._db.row_factory = sqlite3.Row
                self._prepare()
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        """Close the file; safe to call twice."""
        with self._lock:
            self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextlib.contextmanager
    def transaction(self) -> Generator[None]:
        """Make all writes inside one unit: all of them are kept or none. A nested one joins the outer one."""
        with self._lock, self._translated():
            if self._depth == 0:
                self._db.execute("BEGIN IMMEDIATE")
            self._depth += 1
            try:
                yield
            except BaseException:
                self._depth -= 1
                if self._depth == 0 and self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
            self._depth -= 1
            if self._depth == 0:
                self._commit()

    def _commit(self) -> None:
        try:
            self._db.execute("COMMIT")
        except sqlite3.Error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _prepare(self) -> None:
        self._db.execute("PRAGMA foreign_keys = ON")
        migrations.check_ours(self._db, self.path)
        # Refused on some network file systems and while another process does the same: SQLite then keeps the journal
        # that the file has, which is as safe.
        with contextlib.suppress(sqlite3.OperationalError):
            self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        if migrations.pending(self._db):
            with self.transaction():
                migrations.apply(self._db)

    def _rows(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[sqlite3.Row]:
        with self._lock, self._translated():
            return self._db.execute(sql, parameters).fetchall()

    def _one(self, sql: str, parameters: tuple[Any, ...] = ()) -> sqlite3.Row | None:
        with self._lock, self._translated():
            row: sqlite3.Row | None = self._db.execute(sql, parameters).fetchone()
            return row

    def _write(self, sql: str, parameters: tuple[Any, ...] = ()) -> int:
        """Run one statement inside a transaction and return the id of the row that it added."""
        with self.transaction():
            return self._db.execute(sql, parameters).lastrowid or 0

    @contextlib.contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except sqlite3.Error as e:
            raise _in_words(e, self.path) from e


def _in_words(error: sqlite3.Error, path: Path) -> ArchiveError:
    text = str(error)
    if "readonly" in text:
        return ArchiveError(f"the archive {path} cannot be written: it or its folder is read-only", hint=_ELSEWHERE)
    if "disk is full" in text:
        return ArchiveError(
            f"the archive {path} cannot grow: the disk is full", hint=f"free some space, then resume; or {_ELSEWHERE}"
        )
    if "not a database" in text:
        return ArchiveError(f"{path} is not an archive: it is no SQLite file", hint=_ELSEWHERE)
    if "unable to open" in text:
        return ArchiveError(f"the archive {path} cannot be opened or created", hint=_ELSEWHERE)
    if "locked" in text:
        return ArchiveError(
            f"the archive {path} was locked by another process for {BUSY_TIMEOUT_S:.0f} s",
            hint=f"wait until that process is done, or {_ELSEWHERE}",
        )
    if "malformed" in text:
        return ArchiveError(f"the archive {path} is damaged: {text}", hint=f"restore a copy, or {_ELSEWHERE}")
    return ArchiveError(f"the archive {path} failed: {text}", hint=_ELSEWHERE)
