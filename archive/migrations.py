"""The schema as numbered steps; each runs once per file, and the table `migration` holds the names of those that ran.

A released step is never edited: a change of the schema is a new file in `schema/`.
"""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path

from forewarp.core.errors import ArchiveError

SCHEMA = Path(__file__).parent / "schema"


def steps() -> list[str]:
    return sorted(path.stem for path in SCHEMA.glob("*.sql"))


def check_ours(db: sqlite3.Connection, path: Path) -> None:
    """Raise `ArchiveError` if the file belongs to another program or to a newer forewarp."""
    tables = {str(r[0]) for r in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if tables and "migration" not in tables:
        raise ArchiveError(
            f"{path} is a database of another program", hint="pass --archive PATH (or set FOREWARP_ARCHIVE)"
        )
    known = steps()
    unknown = sorted(_applied(db) - set(known))
    if any(name[:5] <= known[-1][:5] for name in unknown):
        # Steps are numbered, so a newer one has a higher number.
        raise sqlite3.DatabaseError(f"malformed name of a step of the schema: {unknown[0]!r}")
    if unknown:
        raise ArchiveError(
            f"the archive {path} was written by a newer forewarp (its schema has {unknown[-1]})",
            hint="upgrade forewarp, or pass --archive PATH (or set FOREWARP_ARCHIVE) to use another file",
        )


def pending(db: sqlite3.Connection) -> list[str]:
    applied = _applied(db)
    return [step for step in steps() if step not in applied]


def apply(db: sqlite3.Connection) -> None:
    """Run the pending steps; the caller holds the write lock, so two processes cannot run one step twice."""
    db.execute("CREATE TABLE IF NOT EXISTS migration (name TEXT PRIMARY KEY, time TEXT NOT NULL) STRICT")
    for step in pending(db):
        run(db, step)


def run(db: sqlite3.Connection, step: str) -> None:
    """Run the statements of a step inside the open transaction, which `executescript` would commit first."""
    statement = ""
    for line in (SCHEMA / f"{step}.sql").read_text().splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            db.execute(statement)
            statement = ""
    db.execute("INSERT INTO migration VALUES (?, ?)", (step, datetime.now(UTC).isoformat()))


def _applied(db: sqlite3.Connection) -> set[str]:
    if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'migration'").fetchone() is None:
        return set()
    return {str(r[0]) for r in db.execute("SELECT name FROM migration")}
