-- The best measurement per run as a view; measurements and ledger become append-only.
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
