-- Second parents, operators and costs of proposals, and results on shapes that nobody tuned for.
ALTER TABLE proposal ADD COLUMN mate TEXT NOT NULL DEFAULT '';
ALTER TABLE proposal ADD COLUMN operator TEXT NOT NULL DEFAULT '';
ALTER TABLE proposal ADD COLUMN cost TEXT NOT NULL DEFAULT '{}';
CREATE TABLE holdout (
    run TEXT NOT NULL REFERENCES run,
    kernel TEXT NOT NULL REFERENCES kernel,
    data TEXT NOT NULL,
    PRIMARY KEY (run, kernel)
) STRICT;
