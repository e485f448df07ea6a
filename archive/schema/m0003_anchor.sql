-- Measurements against another kernel, verdicts `ambiguous` and `impossible`, samples in a column of their own.
-- SQLite cannot alter a CHECK, so the table is made anew. No other table refers to it, so dropping the old one is
-- safe with foreign keys on; its delete trigger does not fire.
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
