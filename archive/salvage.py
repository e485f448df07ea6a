"""Repair of a damaged archive: readable rows go into a new file, the damaged one stays beside it."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forewarp.archive import reader, samples
from forewarp.archive.connection import DAMAGED_ROW
from forewarp.archive.pages import Pages, Record, Value
from forewarp.archive.store import Archive
from forewarp.core import serde
from forewarp.core.errors import ArchiveError, UsageError
from forewarp.core.values import Build, Cost, Forecast, Signature, Target, Task

Row = dict[str, Any]
Check = Callable[[str, Mapping[str, Any]], None]
"""Given a table and a row of it, raise one of `connection.DAMAGED_ROW` if the row cannot be used."""

_TABLES = (
    *("kernel", "task", "target", "signature", "run", "proposal", "forecast", "decision"),
    *("measurement", "spend", "event", "holdout"),
)
_BY_LENGTH = {13: "run", 11: "proposal", 14: "proposal", 8: "forecast", 7: "decision", 21: "measurement", 6: "spend"}
_OLD_MEASUREMENT = 19
"""Columns of a measurement before there were `anchor` and `samples`."""
_COUNTED = {"proposal": "id", "measurement": "id", "spend": "id"}
"""Tables whose numbers have no gaps: a missing one was lost."""
_MOST_NAMED = 20
# SQLite's lock bytes: every open connection holds a shared lock on them.
_SHARED_FIRST, _SHARED_SIZE = 0x40000002, 510


@dataclass(frozen=True, slots=True)
class Salvage:
    """Readable part of an archive. `lost` has one sentence per loss; `damaged` is where the old file went, if moved.

    `pages` are the numbers of the file's damaged pages, `rows` the readable rows per table.
    """

    path: Path
    rows: Mapping[str, int]
    lost: tuple[str, ...]
    pages: tuple[int, ...]
    damaged: Path | None = None

    @property
    def sound(self) -> bool:
        """True if nothing is lost."""
        return not self.lost


def examine(path: Path, check: Check = lambda table, row: None) -> Salvage:
    """Read every page and row of the archive and say what is lost; the file is not changed."""
    with tempfile.TemporaryDirectory() as folder:
        return _salvaged(path, Path(folder) / "a.db", check)


def repair(path: Path, check: Check = lambda table, row: None) -> Salvage:
    """Replace a damaged archive by one with its readable rows, and keep the damaged one beside it.

    A sound archive is left alone. Raises `ArchiveError` while another process has the archive open.
    """
    with _alone(path):
        handle, name = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".part", dir=path.parent)
        os.close(handle)
        made = Path(name)
        try:
            found = _salvaged(path, made, check)
            if found.sound:
                return found
            damaged = _free_name(path)
            os.link(path, damaged)
            log = path.with_name(f"{path.name}-wal")
            if log.exists():
                log.rename(damaged.with_name(f"{damaged.name}-wal"))
            path.with_name(f"{path.name}-shm").unlink(missing_ok=True)
            made.chmod(path.stat().st_mode & 0o777)
            made.replace(path)
        except OSError as e:
            raise ArchiveError(
                f"the archive {path} cannot be repaired in its folder: {e.strerror}",
                hint="copy it to a folder with room that you may write to, and repair it there",
            ) from None
        finally:
            made.unlink(missing_ok=True)
    return Salvage(found.path, found.rows, found.lost, found.pages, damaged)


@contextmanager
def _alone(path: Path) -> Generator[None]:
    """Hold SQLite's own lock on the file, so that nobody opens it meanwhile."""
    try:
        with path.open("r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, _SHARED_SIZE, _SHARED_FIRST)
            yield
    except OSError as e:
        if e.errno in (errno.EAGAIN, errno.EACCES) and path.exists() and os.access(path, os.W_OK):
            raise ArchiveError(
                f"the archive {path} is open in another process", hint="end that process, then repair it"
            ) from None
        raise ArchiveError(f"the archive {path} cannot be repaired: {e.strerror}") from None


def _free_name(path: Path) -> Path:
    number = 1
    while (taken := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    return taken


def _salvaged(path: Path, made: Path, check: Check) -> Salvage:
    """Write all readable rows of `path` to the new file `made`."""
    try:
        pages = Pages.read(path)
    except OSError as e:
        raise ArchiveError(f"the archive {path} cannot be read: {e.strerror}") from None
    records = list(pages.records())
    lost: list[str] = []
    with Archive(made) as archive:
        columns = {
            t: [str(r["name"]) for r in archive._rows(f"PRAGMA table_info({t})")]  # pyright: ignore[reportPrivateUsage]
            for t in _TABLES
        }
        if not any(_table(r.values) for r in records) and _is_other(path):
            raise UsageError(f"{path} is not an archive of forewarp", hint="pass --archive PATH")
        rows: dict[str, list[Row]] = {t: [] for t in _TABLES}
        for record in records:
            table = _table(record.values)
            if table is not None:
                rows[table].append(_row(columns[table], record, table))
        db = archive._db  # pyright: ignore[reportPrivateUsage]
        db.execute("PRAGMA foreign_keys = OFF")
        with archive.transaction():
            for table in _TABLES:
                lost += _write(db, table, rows[table], check)
            # Gaps that an earlier repair left are not reported again.
            is_new = bool(lost or pages.damaged)
            lost += _mended(db, is_new=is_new)
            if is_new:
                for table, key in _COUNTED.items():
                    lost += _gaps(db, table, key, rows[table])
        kept = {t: int(db.execute(f"SELECT count(*) FROM {t}").fetchone()[0]) for t in _TABLES}
        db.execute("PRAGMA journal_mode = DELETE")
    if pages.damaged:
        where = _numbers(sorted(pages.damaged))
        records_lost = f", with {pages.cells} rows that cannot be told" if pages.cells else ""
        lost.append(f"damaged pages of the file: {where}{records_lost}")
    elif not lost and (problem := _refused(path)):
        # No row is lost, yet SQLite cannot use the file: an index or the schema is damaged.
        lost.append(f"no row, but SQLite cannot use the file as it is: {problem}")
    return Salvage(path, kept, tuple(lost), tuple(sorted(pages.damaged)))


def _is_other(path: Path) -> bool:
    with path.open("rb") as file:
        return b"CREATE TABLE migration" not in file.read(1 << 16)


def _table(values: tuple[Value, ...]) -> str | None:
    """Return the table that a row belongs to, by its number of columns and by its first values."""
    count = len(values)
    first, last = values[:1], values[-1:]
    if count == _OLD_MEASUREMENT:
        return "measurement"
    if count in (3, 2) and isinstance(last[0], str):
        if count == 2:
            return "target" if last[0].startswith("{") else None
        if isinstance(first[0], str) and first[0].startswith("r-"):
            return "holdout"
        return "signature" if last[0].startswith("[") else "task"
    if count == 4:
        return "kernel"
    return "event" if count == 5 and isinstance(values[1], int) else _BY_LENGTH.get(count)


def _row(columns: list[str], record: Record, table: str) -> Row:
    names = columns
    if len(record.values) == _OLD_MEASUREMENT:
        names = [c for c in columns if c not in ("anchor", "samples")]
    row = dict(zip(names, record.values, strict=False))
    if "id" in row and row["id"] is None and table != "run":
        row["id"] = record.rowid
    return row


def _write(db: sqlite3.Connection, table: str, rows: list[Row], check: Check) -> list[str]:
    """Insert the rows that are whole; returns a sentence for each loss among the others."""
    lost: Counter[str] = Counter()
    named: dict[str, list[str]] = {}

    def note(what: str, row: Row) -> None:
        lost[what] += 1
        named.setdefault(what, []).append(_name(table, row))

    for row in rows:
        try:
            _checked(table, row)
            check(table, row)
        except DAMAGED_ROW:
            note(f"{table} rows that are damaged", row)
            continue
        if table == "measurement" and row.get("samples") is not None:
            try:
                samples.join(row["data"], row["samples"])
            except DAMAGED_ROW:
                row["samples"] = None
                note("raw samples of measurements, whose results are kept", row)
        names = ", ".join(row)
        try:
            db.execute(f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(row))})", tuple(row.values()))
        except sqlite3.IntegrityError as e:
            if "UNIQUE" not in str(e) or not _is_there(db, table, row):
                note(f"{table} rows that contradict themselves or each other", row)
        except (sqlite3.Error, OverflowError):
            note(f"{table} rows that are damaged", row)
    return [f"{number} {what}: {_some(named[what])}" for what, number in lost.items()]


def _is_there(db: sqlite3.Connection, table: str, row: Row) -> bool:
    """Return whether the same row was inserted before: a page that is no longer in use may hold a copy of it."""
    where = " AND ".join(f"{c} IS ?" for c in row)
    return db.execute(f"SELECT 1 FROM {table} WHERE {where}", tuple(row.values())).fetchone() is not None


def _checked(table: str, row: Row) -> None:
    """Raise one of `DAMAGED_ROW` if a row's values cannot be what was once written."""
    for name, value in row.items():
        if isinstance(value, bytes) and name != "samples":
            raise ValueError(f"{name} is no text")
    match table:
        case "kernel":
            reader.whole_candidate(row, row["sha256"])
        case "task":
            reader.whole_task(row["data"], row["sha256"])
        case "target":
            if serde.from_data(Target, json.loads(row["data"])).name != row["name"]:
                raise ValueError("another target")
        case "run":
            reader.whole_task(row["task_data"], row["task"])
            _target_of(row)
            _ = dict(json.loads(row["settings"])), dict(json.loads(row["environment"]))
        case "measurement":
            reader.whole_measurement(row)
            if row["build"] is not None:
                serde.from_data(Build, json.loads(row["build"]))
        case "proposal":
            serde.from_data(Cost, json.loads(row.get("cost", "{}")))
            if row["build"] is not None:
                serde.from_data(Build, json.loads(row["build"]))
        case "forecast":
            serde.from_data(Forecast, json.loads(row["data"]))
        case "decision":
            _ = dict(json.loads(row["numbers"]))
        case "signature":
            _ = [serde.from_data(Signature, s) for s in json.loads(row["data"])]
        case "event" | "holdout":
            _ = dict(json.loads(row["data"]))
        case _:
            pass


def _target_of(row: Row) -> Target:
    target = serde.from_data(Target, json.loads(row["target_data"]))
    if target.name != row["target"]:
        raise ValueError("another target")
    return target


def _mended(db: sqlite3.Connection, *, is_new: bool) -> list[str]:
    """Restore rows that other rows have a copy of, detach trials from lost runs, and drop rows that belong to nothing.

    Returns what is lost by it, in sentences. Measurements are kept where their kernel is: their task and target come
    back when the same task is measured on the same target again.
    """
    for sha256, data in db.execute("SELECT DISTINCT task, task_data FROM run").fetchall():
        task = serde.from_data(Task, json.loads(data))
        db.execute("INSERT OR IGNORE INTO task VALUES (?, ?, ?)", (sha256, task.name, data))
    db.execute("INSERT OR IGNORE INTO target SELECT DISTINCT target, target_data FROM run")
    lost: list[str] = []
    # Triggers guard append-only tables; they are dropped for this one change, before anybody else can see the file.
    guards = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in guards:
        db.execute(f"DROP TRIGGER {name}")
    for table, columns in (("measurement", ("run", "proposal")), ("spend", ("run",))):
        for column in columns:
            gone = f"{column} IS NOT NULL AND {column} NOT IN (SELECT id FROM {column})"
            if table == "measurement":
                gone += " AND anchor = 'reference'"
            found = [str(r[0]) for r in db.execute(f"SELECT id FROM {table} WHERE {gone}")]
            if found:
                db.execute(f"UPDATE {table} SET {column} = NULL WHERE {gone}")
                lost.append(f"the {column} of {len(found)} {table} rows, which are kept: {_some(found)}")
    for column, key in (("task", "sha256"), ("target", "name")):
        sql = f"SELECT id FROM measurement WHERE {column} NOT IN (SELECT {key} FROM {column})"
        if (found := [str(r[0]) for r in db.execute(sql)]) and is_new:
            lost.append(
                f"the {column} of {len(found)} measurements, which are kept and count again once that {column} is"
                f" measured again: {_some(found)}"
            )
    while True:
        orphans = [
            (str(table), row)
            for table, row, parent, _ in db.execute("PRAGMA foreign_key_check").fetchall()
            if table != "measurement" or parent not in ("task", "target")
        ]
        if not orphans:
            break
        for table in sorted({t for t, _ in orphans}):
            ids = sorted({r for t, r in orphans if t == table})
            db.executemany(f"DELETE FROM {table} WHERE rowid = ?", [(r,) for r in ids])
            lost.append(f"{len(ids)} {table} rows whose run, proposal, kernel, task or target is lost")
    for _, sql in guards:
        db.execute(sql)
    return lost


def _gaps(db: sqlite3.Connection, table: str, key: str, seen: list[Row]) -> list[str]:
    """Return, in words, the ids below the highest one that are missing and that no row in `seen` has."""
    known = {r[key] for r in seen if isinstance(r.get(key), int)}
    highest = int(db.execute(f"SELECT coalesce(max({key}), 0) FROM {table}").fetchone()[0])
    count = int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
    if highest > 10 * (count + 100):  # a number that is damaged itself
        return []
    missing = sorted(set(range(1, highest)) - known)
    return [f"{len(missing)} {table} rows: {_numbers(missing)}"] if missing else []


def _name(table: str, row: Row) -> str:
    if table in ("kernel", "task"):
        return str(row.get("sha256"))[:10]
    if table in ("forecast", "decision"):
        return f"{row.get('proposal')} in round {row.get('round')}"
    if table in ("event", "holdout"):
        return f"{row.get('run')}/{str(row.get('seq', row.get('kernel')))[:10]}"
    return str(row.get("id") or row.get("name") or row.get("task"))


def _some(names: list[str]) -> str:
    shown = ", ".join(n if n.isprintable() else ascii(n) for n in names[:_MOST_NAMED])
    return shown + (f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else "")


def _numbers(numbers: list[int]) -> str:
    """Return numbers as ranges: 3, 7–12."""
    ranges: list[list[int]] = []
    for n in numbers:
        if ranges and n == ranges[-1][1] + 1:
            ranges[-1][1] = n
        else:
            ranges.append([n, n])
    return _some([str(a) if a == b else f"{a}–{b}" for a, b in ranges])


def _refused(path: Path) -> str:
    """Return what SQLite finds wrong with the file, "" for nothing."""
    try:
        db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            problem = str(db.execute("PRAGMA integrity_check(1)").fetchone()[0])
        finally:
            db.close()
        if problem == "ok":
            with Archive(path):
                return ""
    except (sqlite3.Error, UnicodeDecodeError, ArchiveError) as e:
        return str(e).splitlines()[0]
    return " ".join(problem.split())
