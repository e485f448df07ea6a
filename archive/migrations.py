"""The schema as numbered steps; each runs once per file, and the table `migration` holds the names of those that ran.

A released step is never edited: a change of the schema is a new function at the end of `STEPS`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from forewarp.core.errors import ArchiveError

_TABLES = """
CREATE TABLE kernel (
    sha256 TEXT PRIMARY KEY,
    language TEXT NOT NULL CHECK (language IN ('cpp', 'triton', 'cuda', 'python')),
    source TEXT NOT NULL,
    tunables TEXT NOT NULL
) STRICT;
CREATE TABLE task (
    sha256 TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    data TEXT NOT NULL
) STRICT;
CREATE TABLE target (
    name TEXT PRIMARY KEY,
    data TEXT NOT NULL
) STRICT;
CREATE TABLE signature (
    task TEXT NOT NULL REFERENCES task,
    target TEXT NOT NULL REFERENCES target,
    data TEXT NOT NULL,
    PRIMARY KEY (task, target)
) STRICT;
CREATE TABLE run (
    id TEXT PRIMARY KEY,
    task TEXT NOT NULL REFERENCES task,
    target TEXT NOT NULL REFERENCES target,
    task_data TEXT NOT NULL,
    target_data TEXT NOT NULL,
    settings TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('running', 'finished', 'interrupted', 'failed')),
    reason TEXT NOT NULL DEFAULT '',
    created TEXT NOT NULL,
    finished TEXT NOT NULL DEFAULT '',
    version TEXT NOT NULL,
    environment TEXT NOT NULL,
    owner TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE TABLE proposal (
    id INTEGER PRIMARY KEY,
    run TEXT NOT NULL REFERENCES run,
    round INTEGER NOT NULL CHECK (round >= 0),
    position INTEGER NOT NULL CHECK (position >= 0),
    kernel TEXT NOT NULL REFERENCES kernel,
    proposer TEXT NOT NULL,
    parent TEXT NOT NULL DEFAULT '',
    note TEXT NOT NULL DEFAULT '',
    outcome TEXT NOT NULL DEFAULT 'pending'
        CHECK (outcome IN ('pending', 'passed', 'malformed', 'duplicate', 'same_code', 'compile_error')),
    reason TEXT NOT NULL DEFAULT '',
    build TEXT,
    UNIQUE (run, round, position),
    CHECK (outcome <> 'passed' OR build IS NOT NULL)
) STRICT;
CREATE TABLE forecast (
    run TEXT NOT NULL REFERENCES run,
    round INTEGER NOT NULL,
    proposal INTEGER NOT NULL REFERENCES proposal,
    forecaster TEXT NOT NULL,
    p_valid REAL NOT NULL,
    p_faster REAL NOT NULL,
    median REAL NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (proposal, round)
) STRICT;
CREATE TABLE decision (
    run TEXT NOT NULL REFERENCES run,
    round INTEGER NOT NULL,
    proposal INTEGER NOT NULL REFERENCES proposal,
    action TEXT NOT NULL CHECK (action IN ('measure', 'skip', 'reject')),
    reason TEXT NOT NULL,
    score REAL NOT NULL,
    numbers TEXT NOT NULL,
    PRIMARY KEY (proposal, round)
) STRICT;
CREATE TABLE measurement (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run TEXT REFERENCES run,
    proposal INTEGER REFERENCES proposal,
    purpose TEXT NOT NULL CHECK (purpose IN ('candidate', 'confirm', 'direct')),
    task TEXT NOT NULL REFERENCES task,
    target TEXT NOT NULL REFERENCES target,
    kernel TEXT NOT NULL REFERENCES kernel,
    state TEXT NOT NULL CHECK (state IN ('started', 'done')),
    started TEXT NOT NULL,
    finished TEXT NOT NULL DEFAULT '',
    version TEXT NOT NULL,
    status TEXT CHECK (status IN
        ('ok', 'compile_error', 'incorrect', 'runtime_error', 'timeout', 'crashed', 'out_of_memory')),
    verdict TEXT CHECK (verdict IN
        ('faster', 'slower', 'tie', 'inconclusive', 'incorrect', 'failed', 'suspicious')),
    speedup REAL CHECK (speedup > 0),
    low REAL,
    high REAL,
    device_s REAL CHECK (device_s >= 0),
    build TEXT,
    data TEXT,
    CHECK ((state = 'done') = (status IS NOT NULL)),
    CHECK ((state = 'done') = (verdict IS NOT NULL)),
    CHECK ((state = 'done') = (data IS NOT NULL)),
    CHECK ((state = 'done') = (build IS NOT NULL)),
    CHECK ((coalesce(status, '') = 'ok') = (speedup IS NOT NULL)),
    CHECK ((low IS NULL) = (high IS NULL)),
    CHECK (low IS NULL OR speedup IS NOT NULL)
) STRICT;
CREATE UNIQUE INDEX measurement_once ON measurement (proposal, purpose) WHERE proposal IS NOT NULL;
CREATE INDEX measurement_subject ON measurement (task, target);
CREATE INDEX measurement_run ON measurement (run);
CREATE TABLE spend (
    id INTEGER PRIMARY KEY,
    run TEXT REFERENCES run,
    kind TEXT NOT NULL CHECK (kind IN ('measurement', 'device_s', 'dollars', 'tokens', 'wall_s')),
    amount REAL NOT NULL CHECK (amount >= 0),
    ref TEXT NOT NULL DEFAULT '',
    time TEXT NOT NULL
) STRICT;
CREATE INDEX spend_run ON spend (run, kind);
CREATE TABLE event (
    run TEXT NOT NULL REFERENCES run,
    seq INTEGER NOT NULL,
    time TEXT NOT NULL,
    type TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (run, seq)
) STRICT;
"""

_VIEWS_AND_GUARDS = """
CREATE VIEW best AS
SELECT run, task, target, kernel, id AS measurement, speedup, low, high FROM (
    SELECT *, row_number() OVER (PARTITION BY run ORDER BY speedup DESC, id) AS place
    FROM measurement
    WHERE run IS NOT NULL AND purpose = 'candidate' AND status = 'ok' AND verdict <> 'suspicious' AND low IS NOT NULL
) WHERE place = 1;
CREATE TRIGGER measurement_final BEFORE UPDATE ON measurement WHEN old.state = 'done'
BEGIN SELECT raise(ABORT, 'a finished measurement is never changed'); END;
CREATE TRIGGER measurement_kept BEFORE DELETE ON measurement
BEGIN SELECT raise(ABORT, 'a measurement is never deleted'); END;
CREATE TRIGGER spend_final BEFORE UPDATE ON spend
BEGIN SELECT raise(ABORT, 'an entry of the ledger is never changed'); END;
CREATE TRIGGER spend_kept BEFORE DELETE ON spend
BEGIN SELECT raise(ABORT, 'an entry of the ledger is never deleted'); END;
"""

_MEASUREMENT_WITH_ANCHOR = """
DROP VIEW best;
CREATE TABLE measurement_new (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run TEXT REFERENCES run,
    proposal INTEGER REFERENCES proposal,
    purpose TEXT NOT NULL CHECK (purpose IN ('candidate', 'confirm', 'direct')),
    task TEXT NOT NULL REFERENCES task,
    target TEXT NOT NULL REFERENCES target,
    kernel TEXT NOT NULL REFERENCES kernel,
    anchor TEXT NOT NULL DEFAULT 'reference',
    state TEXT NOT NULL CHECK (state IN ('started', 'done')),
    started TEXT NOT NULL,
    finished TEXT NOT NULL DEFAULT '',
    version TEXT NOT NULL,
    status TEXT CHECK (status IN
        ('ok', 'compile_error', 'incorrect', 'runtime_error', 'timeout', 'crashed', 'out_of_memory')),
    verdict TEXT CHECK (verdict IN ('faster', 'slower', 'tie', 'inconclusive', 'ambiguous', 'incorrect', 'failed',
        'suspicious', 'impossible')),
    speedup REAL CHECK (speedup > 0),
    low REAL,
    high REAL,
    device_s REAL CHECK (device_s >= 0),
    build TEXT,
    data TEXT,
    samples BLOB,
    CHECK ((state = 'done') = (status IS NOT NULL)),
    CHECK ((state = 'done') = (verdict IS NOT NULL)),
    CHECK ((state = 'done') = (data IS NOT NULL)),
    CHECK ((state = 'done') = (build IS NOT NULL)),
    CHECK ((coalesce(status, '') = 'ok') = (speedup IS NOT NULL)),
    CHECK ((low IS NULL) = (high IS NULL)),
    CHECK (low IS NULL OR speedup IS NOT NULL),
    CHECK (samples IS NULL OR state = 'done'),
    CHECK (run IS NULL OR anchor = 'reference')
) STRICT;
INSERT INTO measurement_new (id, run, proposal, purpose, task, target, kernel, state, started, finished, version,
    status, verdict, speedup, low, high, device_s, build, data)
SELECT id, run, proposal, purpose, task, target, kernel, state, started, finished, version,
    status, verdict, speedup, low, high, device_s, build, data FROM measurement ORDER BY id;
DELETE FROM sqlite_sequence WHERE name = 'measurement_new';
INSERT INTO sqlite_sequence (name, seq) SELECT 'measurement_new', seq FROM sqlite_sequence WHERE name = 'measurement';
DROP TABLE measurement;
ALTER TABLE measurement_new RENAME TO measurement;
CREATE UNIQUE INDEX measurement_once ON measurement (proposal, purpose) WHERE proposal IS NOT NULL;
CREATE INDEX measurement_subject ON measurement (task, target);
CREATE INDEX measurement_run ON measurement (run);
CREATE VIEW best AS
SELECT run, task, target, kernel, id AS measurement, speedup, low, high FROM (
    SELECT *, row_number() OVER (PARTITION BY run ORDER BY verdict = 'ambiguous', speedup DESC, id) AS place
    FROM measurement
    WHERE run IS NOT NULL AND purpose = 'candidate' AND anchor = 'reference' AND status = 'ok'
        AND verdict NOT IN ('suspicious', 'impossible') AND low IS NOT NULL
) WHERE place = 1;
CREATE TRIGGER measurement_final BEFORE UPDATE ON measurement WHEN old.state = 'done'
BEGIN SELECT raise(ABORT, 'a finished measurement is never changed'); END;
CREATE TRIGGER measurement_kept BEFORE DELETE ON measurement
BEGIN SELECT raise(ABORT, 'a measurement is never deleted'); END;
"""

_LINEAGE = """
ALTER TABLE proposal ADD COLUMN mate TEXT NOT NULL DEFAULT '';
ALTER TABLE proposal ADD COLUMN operator TEXT NOT NULL DEFAULT '';
ALTER TABLE proposal ADD COLUMN cost TEXT NOT NULL DEFAULT '{}';
CREATE TABLE holdout (
    run TEXT NOT NULL REFERENCES run,
    kernel TEXT NOT NULL REFERENCES kernel,
    data TEXT NOT NULL,
    PRIMARY KEY (run, kernel)
) STRICT;
"""


def m0001_tables(db: sqlite3.Connection) -> None:
    """Create the tables of kernels, runs and what happens in them."""
    _script(db, _TABLES)


def m0002_views_and_guards(db: sqlite3.Connection) -> None:
    """Add the best measurement per run as a view, and make measurements and ledger append-only."""
    _script(db, _VIEWS_AND_GUARDS)


def m0003_anchor(db: sqlite3.Connection) -> None:
    """Add measurements against another kernel, verdicts `ambiguous` and `impossible`, samples in a column of their own.

    SQLite cannot alter a CHECK, so the table is made anew. No other table refers to it, so dropping the old one is
    safe with foreign keys on; its delete trigger does not fire.
    """
    _script(db, _MEASUREMENT_WITH_ANCHOR)


def m0004_lineage(db: sqlite3.Connection) -> None:
    """Add second parents, operators and costs of proposals, and results on shapes that nobody tuned for."""
    _script(db, _LINEAGE)


Step = Callable[[sqlite3.Connection], None]
STEPS: tuple[Step, ...] = (m0001_tables, m0002_views_and_guards, m0003_anchor, m0004_lineage)


def check_ours(db: sqlite3.Connection, path: Path) -> None:
    """Raise `ArchiveError` if the file belongs to another program or to a newer forewarp."""
    tables = {str(r[0]) for r in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if tables and "migration" not in tables:
        raise ArchiveError(
            f"{path} is a database of another program", hint="pass --archive PATH (or set FOREWARP_ARCHIVE)"
        )
    unknown = sorted(_applied(db) - {step.__name__ for step in STEPS})
    if any(name[:5] <= STEPS[-1].__name__[:5] for name in unknown):
        # Steps are numbered, so a newer one has a higher number.
        raise sqlite3.DatabaseError(f"malformed name of a step of the schema: {unknown[0]!r}")
    if unknown:
        raise ArchiveError(
            f"the archive {path} was written by a newer forewarp (its schema has {unknown[-1]})",
            hint="upgrade forewarp, or pass --archive PATH (or set FOREWARP_ARCHIVE) to use another file",
        )


def pending(db: sqlite3.Connection) -> list[Step]:
    """Return the steps that this file has not seen."""
    applied = _applied(db)
    return [step for step in STEPS if step.__name__ not in applied]


def apply(db: sqlite3.Connection) -> None:
    """Run the pending steps; the caller holds the write lock, so two processes cannot run one step twice."""
    db.execute("CREATE TABLE IF NOT EXISTS migration (name TEXT PRIMARY KEY, time TEXT NOT NULL) STRICT")
    for step in pending(db):
        step(db)
        db.execute("INSERT INTO migration VALUES (?, ?)", (step.__name__, datetime.now(UTC).isoformat()))


def _applied(db: sqlite3.Connection) -> set[str]:
    if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'migration'").fetchone() is None:
        return set()
    return {str(r[0]) for r in db.execute("SELECT name FROM migration")}


def _script(db: sqlite3.Connection, text: str) -> None:
    """Run several statements inside the open transaction, which `executescript` would commit first."""
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            db.execute(statement)
            statement = ""
