-- Tables of kernels, runs and what happens in them.
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
