"""Connection to the archive's SQLite file: opening it, transactions, and errors in plain words."""

from __future__ import annotations

import contextlib
import os
import shlex
import sqlite3
import threading
import zlib
from collections.abc import Generator
from pathlib import Path
from typing import Any, Self

from forewarp.archive import migrations
from forewarp.core.errors import ArchiveError

BUSY_TIMEOUT_S = 30.0
DAMAGED_ROW = (
    *(ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError),
    zlib.error,
)
"""Exceptions that building a value from a row raises if the row's bytes are damaged."""
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

    def __exit__(self, *_: object) -> None:
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
        except (UnicodeDecodeError, OverflowError) as e:
            raise damage(self.path, "it holds text that is no UTF-8") from e

    @contextlib.contextmanager
    def whole(self, what: str) -> Generator[None]:
        """Raise `ArchiveError` if values cannot be built from what was read; `what` names the row."""
        try:
            yield
        except DAMAGED_ROW as e:
            raise damage(self.path, f"{what} cannot be read") from e


def damage(path: Path, what: str) -> ArchiveError:
    """Return the error of a file whose bytes have changed."""
    # Exactly one line: the text of SQLite may hold bytes of the file.
    shown = "".join(c if c.isprintable() else "?" for c in what)
    return ArchiveError(
        f"the archive {path} is damaged: {shown}",
        hint=f"`forewarp archive repair --archive {shlex.quote(str(path))}` keeps what can be read and says what is"
        f" lost; or {_ELSEWHERE}",
    )


def _is_archive(path: Path) -> bool:
    """Return whether a file that SQLite refuses was once an archive: the text of its schema says so."""
    try:
        with path.open("rb") as file:
            content = file.read(1 << 16)
    except OSError:
        return False
    return content.startswith(b"SQLite format 3") or b"CREATE TABLE migration" in content or b"TABLE kernel" in content


_CAUSES = (
    ("readonly", "cannot be written: it or its folder is read-only", ""),
    ("disk is full", "cannot grow: the disk is full", "free some space, then resume; or "),
    ("unable to open", "cannot be opened or created", ""),
    ("locked", f"was locked by another process for {BUSY_TIMEOUT_S:.0f} s", "wait until that process is done, or "),
)
"""Texts of SQLite's errors, what they mean for the archive, and what to do next."""
_SIGNS_OF_DAMAGE = ("malformed", "decode to UTF-8", "unsupported file format", "no such", "already exists")


def _in_words(error: sqlite3.Error, path: Path) -> ArchiveError:
    text = str(error)
    for sign, meaning, hint in _CAUSES:
        if sign in text:
            return ArchiveError(f"the archive {path} {meaning}", hint=hint + _ELSEWHERE)
    if "not a database" in text:
        if _is_archive(path):
            return damage(path, "its first page")
        return ArchiveError(f"{path} is not an archive: it is no SQLite file", hint=_ELSEWHERE)
    if isinstance(error, sqlite3.DataError) or any(sign in text for sign in _SIGNS_OF_DAMAGE):
        return damage(path, text)
    return ArchiveError(f"the archive {path} failed: {text}", hint=_ELSEWHERE)
