"""Repair of a damaged archive: readable rows go into a new file, the damaged one stays beside it.

SQLite gives up on a table at its first damaged page, and on the whole file where the schema is damaged. So each page
that holds rows (a leaf of a table's B-tree, https://sqlite.org/fileformat2.html) is read by SQLite as a table of its
own, in a copy of the file with a schema that says so: what one page lost costs no other page its rows.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

from forewarp.archive import samples, store
from forewarp.archive.connection import DAMAGED_ROW
from forewarp.archive.store import Archive
from forewarp.core import serde
from forewarp.core.errors import ArchiveError, UsageError
from forewarp.core.scratch import temporary_folder
from forewarp.core.values import Build, Cost, Forecast, RatedPlan, Signature, Target, Task

Row = dict[str, Any]
RowCheck = Callable[[str, Mapping[str, Any]], None]
"""Given a table and a row of it, raise one of `connection.DAMAGED_ROW` if the row cannot be used."""

_TABLES = (
    *("kernel", "task", "target", "run", "signature", "proposal", "forecast", "decision"),
    *("measurement", "spend", "event", "holdout"),
)
"""Each after those that its rows refer to."""
_PARENTS = {"kernel": "sha256", "run": "id", "proposal": "id"}
_NO_PARENT = "FOREIGN KEY constraint failed"
_BY_LENGTH = {
    **{4: "kernel", 5: "event", 6: "spend", 7: "decision", 8: "forecast", 13: "run"},
    **dict.fromkeys((11, 14, 15), "proposal"),
    **dict.fromkeys((19, 21), "measurement"),
}
"""Tables by the number of their columns, those of older schemas too; the others are told by their values."""
_OLD_MEASUREMENT = 19
"""Columns of a measurement before there were `anchor` and `samples`."""
_JSON: Mapping[str, Mapping[str, Any]] = {
    "signature": {"data": tuple[Signature, ...]},
    "run": {"settings": dict[str, Any], "environment": dict[str, str]},
    "proposal": {"cost": Cost, "build": Build, "plan": RatedPlan},
    "forecast": {"data": Forecast},
    "decision": {"numbers": dict[str, float]},
    "measurement": {"build": Build},
    "event": {"data": dict[str, Any]},
    "holdout": {"data": dict[str, Any]},
}
"""Columns that hold JSON, with the type of what it describes."""
_NUMBERED = ("proposal", "measurement", "spend")
"""Tables whose ids have no gaps: a missing one was lost."""
# SQLite's lock bytes: every open connection holds a shared lock on them.
_SHARED_FIRST, _SHARED_SIZE = 0x40000002, 510

_TABLE_LEAF = 0x0D
_KINDS = (0x00, 0x02, 0x05, 0x0A, _TABLE_LEAF)
"""First bytes of whole pages; one that goes on with a long value begins with 0."""
_ABSENT = b"\0no column"
_MOST_COLUMNS = 22
_AT_ONCE = 1000
"""Pages that are tables of one schema: SQLite reads the whole schema first."""


@dataclass(frozen=True, slots=True)
class Salvage:
    """Readable part of an archive, by table; `lost` has a sentence per loss, `damaged` is where the old file went."""

    path: Path
    rows: Mapping[str, int]
    lost: tuple[str, ...]
    damaged: Path | None = None

    @property
    def sound(self) -> bool:
        return not self.lost


def examine(path: Path, check: RowCheck = lambda table, row: None) -> Salvage:
    """Read every page and row of the archive and say what is lost; the file is not changed."""
    try:
        with path.open("rb") as file, temporary_folder() as folder:
            return _salvaged(path, file, folder / "made.db", check)
    except OSError as e:
        raise ArchiveError(f"the archive {path} cannot be read: {e.strerror}") from None


def repair(path: Path, check: RowCheck = lambda table, row: None) -> Salvage:
    """Replace a damaged archive by its readable rows, and keep it beside; raises `ArchiveError` while it is in use."""
    with _alone(path) as file:
        handle, name = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".part", dir=path.parent)
        os.close(handle)
        made = Path(name)
        try:
            salvage = _salvaged(path, file, made, check)
            if salvage.sound:
                return salvage
            number = 1
            while (damaged := path.with_name(f"{path.name}.damaged-{number}")).exists():
                number += 1
            os.link(path, damaged)
            log = _log(path)
            if log.exists():
                log.rename(_log(damaged))
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
    return replace(salvage, damaged=damaged)


@contextmanager
def _alone(path: Path) -> Generator[BinaryIO]:
    """Yield the open file under SQLite's own lock, which POSIX drops once any handle of the file is closed."""
    try:
        with path.open("r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, _SHARED_SIZE, _SHARED_FIRST)
            yield file
    except OSError as e:
        if e.errno in (errno.EAGAIN, errno.EACCES) and path.exists() and os.access(path, os.W_OK):
            raise ArchiveError(
                f"the archive {path} is open in another process", hint="end that process, then repair it"
            ) from None
        raise ArchiveError(f"the archive {path} cannot be repaired: {e.strerror}") from None


def _log(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


@dataclass(frozen=True, slots=True)
class PageRow:
    """One row of some table, and the page that it lies in; text that is no UTF-8 stays `bytes`."""

    page: int
    rowid: int
    values: tuple[Any, ...]


@dataclass
class PageRows:
    """Rows of all tables of a file, page by page, and the pages that could not be read in whole."""

    rows: list[PageRow] = field(default_factory=list[PageRow])
    damaged: set[int] = field(default_factory=set[int])
    unread: int = 0
    """Number of rows of damaged pages that cannot be read."""


def read_pages(copy: Path) -> PageRows:
    """Read every row of a copy of an archive and of its write-ahead log; the copy is good for nothing afterwards."""
    size, head = _prepare(copy)
    content = copy.read_bytes()
    count, declared = len(content) // size, int.from_bytes(head[28:32], "big")
    read = PageRows()
    if head[24:28] == head[92:96] and count < declared < 2 * count + 1000:
        read.damaged |= set(range(count + 1, declared + 1))  # the file was cut off
    free = _free(head, content, size)
    pages = {n: content[(n - 1) * size : n * size] for n in range(2, count + 1) if n not in free}
    read.damaged |= {n for n, page in pages.items() if page[0] not in _KINDS or not any(page)}
    leaves = [n for n, page in pages.items() if page[0] == _TABLE_LEAF]
    for start in range(0, len(leaves), _AT_ONCE):
        some = leaves[start : start + _AT_ONCE]
        with closing(_as_tables(copy, some)) as db:
            for n in some:
                rows = list(dict.fromkeys(_rows(db, n)))
                read.rows += rows
                cells = int.from_bytes(pages[n][3:5], "big")
                if cells != len(rows):
                    read.damaged.add(n)
                    read.unread += max(0, cells - len(rows)) if cells < size // 4 else 0
    return read


def _prepare(copy: Path) -> tuple[int, bytes]:
    """Fold the log into the copy and give it an intact first page; returns the page size and the header as it was."""
    content = bytearray(copy.read_bytes())
    size = int.from_bytes(content[16:18].ljust(2, b"\0"), "big")
    size = 65536 if size == 1 else size
    if size < 512 or size & (size - 1):
        size = 4096  # what forewarp writes
    empty = copy.with_name("empty.db")
    with closing(sqlite3.connect(empty)) as db:
        db.executescript(f"PRAGMA page_size = {size}; CREATE TABLE t (c); DROP TABLE t; VACUUM;")
    first = empty.read_bytes()[:size]
    head = bytes(content[:100]).ljust(100, b"\0")
    content += bytes(-len(content) % size)
    content[:size] = first
    copy.write_bytes(content)
    if _log(copy).is_file():
        with closing(sqlite3.connect(copy)) as db, suppress(sqlite3.Error):
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        _log(copy).unlink(missing_ok=True)
        content = bytearray(copy.read_bytes())
        if bytes(content[:size]) != first:
            head = bytes(content[:100])  # the log holds a later one
            content[:size] = first
    content[28:32], content[92:96] = (len(content) // size).to_bytes(4, "big"), content[24:28]
    copy.write_bytes(content)
    return size, head


def _as_tables(copy: Path, pages: list[int]) -> sqlite3.Connection:
    """Open the copy with a schema in which each of these pages is a table."""
    columns = ", ".join(f"c{i} DEFAULT x'{_ABSENT.hex()}'" for i in range(_MOST_COLUMNS))
    with closing(sqlite3.connect(copy)) as db, db:
        db.execute("PRAGMA writable_schema = ON")
        db.execute("DELETE FROM sqlite_master")
        db.executemany(
            "INSERT INTO sqlite_master VALUES ('table', ?, ?, ?, ?)",
            ((f"p{n}", f"p{n}", n, f"CREATE TABLE p{n} ({columns})") for n in pages),
        )
    db = sqlite3.connect(copy)
    db.text_factory = _text
    return db


def _rows(db: sqlite3.Connection, page: int) -> Iterator[PageRow]:
    """Yield the rows of a page; where SQLite stops at a damaged one, go on from the other end."""
    for order in ("", " ORDER BY rowid DESC"):
        try:
            for rowid, *values in db.execute(f"SELECT rowid, * FROM p{page}{order}"):
                yield PageRow(page, rowid, tuple(v for v in values if v != _ABSENT))
            return
        except (sqlite3.Error, OverflowError, MemoryError):
            continue


def _text(raw: bytes) -> str | bytes:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _free(head: bytes, content: bytes, size: int) -> set[int]:
    """Return the pages that the file's list of free pages names, as far as it can be followed: they hold old rows."""
    free: set[int] = set()
    count, trunk = len(content) // size, int.from_bytes(head[32:36], "big")
    while 1 < trunk <= count and trunk not in free:
        free.add(trunk)
        numbers = [int.from_bytes(content[i : i + 4], "big") for i in range((trunk - 1) * size, trunk * size, 4)]
        named = numbers[2 : 2 + min(numbers[1], size // 4 - 2)]
        if any(not 1 < n <= count for n in named):
            return set()  # a list that is damaged itself must not hide rows
        free.update(named)
        trunk = numbers[0]
    return free


def _salvaged(path: Path, file: BinaryIO, made: Path, check: RowCheck) -> Salvage:
    """Write all readable rows of the open `file` at `path` to the new archive `made`."""
    with temporary_folder() as folder:
        copy = folder / "copy.db"
        with copy.open("wb") as out:
            shutil.copyfileobj(file, out)
        if _log(path).is_file():
            shutil.copy(_log(path), _log(copy))
        with copy.open("rb") as out:
            is_ours = b"CREATE TABLE migration" in out.read(1 << 16)
        whole = folder / "whole.db"
        shutil.copy(copy, whole)
        if _log(copy).is_file():
            shutil.copy(_log(copy), _log(whole))
        refusal = _refusal(whole).replace(str(whole), str(path))
        read = read_pages(copy)
    Archive(made).close()
    with closing(sqlite3.connect(made, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        columns = {t: [str(r[1]) for r in db.execute(f"PRAGMA table_info({t})")] for t in _TABLES}
        rows: dict[str, list[Row]] = {t: [] for t in _TABLES}
        for record in read.rows:
            if (table := _table(record.values)) is not None:
                rows[table].append(_row(columns[table], record, table))
        if not any(rows.values()) and not is_ours:
            raise UsageError(f"{path} is not an archive of forewarp", hint="pass --archive PATH")
        losses: Counter[str] = Counter()
        for table in _TABLES:
            _write(db, table, rows[table], check, losses)
        if losses or read.damaged or refusal:  # what an earlier repair lost is not reported again
            losses.update(_missing(db, rows))
        kept = {t: int(db.execute(f"SELECT count(*) FROM {t}").fetchone()[0]) for t in _TABLES}
    lost = [f"{count} {what}" for what, count in losses.items()]
    if read.damaged:
        unread = f", with {read.unread} rows that cannot be read" if read.unread else ""
        lost.append(f"{len(read.damaged)} damaged pages of the file{unread}")
    elif refusal and not lost:
        # An index or the schema is damaged.
        lost.append(f"no row, but SQLite cannot use the file as it is: {refusal}")
    return Salvage(path, kept, tuple(lost))


def _table(values: tuple[Any, ...]) -> str | None:
    """Return the table that a row belongs to, by its number of columns and by its first values."""
    first, last = values[:1], values[-1:]
    if len(values) in (2, 3) and isinstance(last[0], str):
        if len(values) == 2:
            return "target" if last[0].startswith("{") else None
        if isinstance(first[0], str) and first[0].startswith("r-"):
            return "holdout"
        return "signature" if last[0].startswith("[") else "task"
    return None if len(values) == 5 and not isinstance(values[1], int) else _BY_LENGTH.get(len(values))


def _row(columns: list[str], record: PageRow, table: str) -> Row:
    old = len(record.values) == _OLD_MEASUREMENT
    names = [c for c in columns if c not in ("anchor", "samples")] if old else columns
    row = dict(zip(names, record.values, strict=False))
    if table in _NUMBERED and row["id"] is None:
        row["id"] = record.rowid
    return row


def _write(db: sqlite3.Connection, table: str, rows: list[Row], check: RowCheck, losses: Counter[str]) -> None:
    """Insert the rows that are whole and belong to something; count the others in `losses`, by what is lost."""
    # A measurement without its task or target is kept: both come back with the next measurement on them.
    db.execute(f"PRAGMA foreign_keys = {'OFF' if table == 'measurement' else 'ON'}")
    known = {t: {r[0] for r in db.execute(f"SELECT {key} FROM {t}")} for t, key in _PARENTS.items()}
    db.execute("BEGIN")
    for row in rows:
        try:
            _check_values(table, row)
            check(table, row)
        except DAMAGED_ROW:
            losses[f"{table} rows that are damaged"] += 1
            continue
        if table == "run":  # it has copies of what it is about
            name = serde.from_data(Task, json.loads(row["task_data"])).name
            db.execute("INSERT OR IGNORE INTO task VALUES (?, ?, ?)", (row["task"], name, row["task_data"]))
            db.execute("INSERT OR IGNORE INTO target VALUES (?, ?)", (row["target"], row["target_data"]))
        for parent in ("run", "proposal") if table in ("measurement", "spend") else ():
            if row.get(parent) is not None and row[parent] not in known[parent]:
                row[parent] = None
                losses[f"{table} rows that are kept, but whose {parent} is lost"] += 1
        if table == "measurement" and row.get("samples") is not None:
            try:
                samples.join(row["data"], row["samples"])
            except DAMAGED_ROW:
                row["samples"] = None
                losses["raw samples of measurements, whose results are kept"] += 1
        try:
            if table == "measurement" and row["kernel"] not in known["kernel"]:
                raise sqlite3.IntegrityError(_NO_PARENT)
            values = tuple(row.values())
            db.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", values)
        except sqlite3.IntegrityError as e:
            # A page that is no longer in use may hold a copy of a row.
            same = f"SELECT 1 FROM {table} WHERE {' AND '.join(f'{c} IS ?' for c in row)}"
            if _NO_PARENT in str(e):
                losses[f"{table} rows whose run, proposal, kernel, task or target is lost"] += 1
            elif "UNIQUE" not in str(e) or db.execute(same, tuple(row.values())).fetchone() is None:
                losses[f"{table} rows that contradict themselves or each other"] += 1
        except (sqlite3.Error, OverflowError):
            losses[f"{table} rows that are damaged"] += 1
    db.execute("COMMIT")


def _check_values(table: str, row: Row) -> None:
    """Raise one of `DAMAGED_ROW` if a row's values cannot be what was once written."""
    if any(isinstance(value, bytes) and name != "samples" for name, value in row.items()):
        raise ValueError("text that is no UTF-8")
    for name, kind in _JSON.get(table, {}).items():
        if row.get(name) is not None:
            data = json.loads(row[name])
            if not isinstance(data, dict | list):
                raise ValueError(f"{name} is no object and no list")
            serde.from_data(kind, data)
    if table == "kernel":
        store.whole_candidate(row, row["sha256"])
    elif table == "task":
        store.whole_task(row["data"], row["sha256"])
    elif table == "target":
        _check_target(row["data"], row["name"])
    elif table == "run":
        store.whole_task(row["task_data"], row["task"])
        _check_target(row["target_data"], row["target"])
    elif table == "measurement":
        store.whole_measurement(row)


def _check_target(data: str, name: str) -> None:
    if serde.from_data(Target, json.loads(data)).name != name:
        raise ValueError("another target")


def _missing(db: sqlite3.Connection, rows: Mapping[str, list[Row]]) -> dict[str, int]:
    """Count the measurements whose task or target is lost, and ids below the highest that no row has."""
    lost: dict[str, int] = {}
    for column, key in (("task", "sha256"), ("target", "name")):
        orphans = f"SELECT count(*) FROM measurement WHERE {column} NOT IN (SELECT {key} FROM {column})"
        lost[f"measurements that are kept, and count again once their {column} is measured again"] = int(
            db.execute(orphans).fetchone()[0]
        )
    for table in _NUMBERED:
        highest, count = db.execute(f"SELECT coalesce(max(id), 0), count(*) FROM {table}").fetchone()
        if highest <= 10 * (count + 100):  # else the number is damaged itself
            seen = {r.get("id") for r in rows[table]}
            lost[f"{table} rows that are gone"] = len(set(range(1, highest)) - seen)
    return {what: number for what, number in lost.items() if number}


def _refusal(path: Path) -> str:
    """Return what SQLite finds wrong with the file, "" for nothing."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            problem = str(db.execute("PRAGMA integrity_check(1)").fetchone()[0])
        if problem == "ok":
            with Archive(path):
                return ""
    except (sqlite3.Error, UnicodeDecodeError, ArchiveError) as e:
        return str(e).splitlines()[0]
    return " ".join(problem.split())
