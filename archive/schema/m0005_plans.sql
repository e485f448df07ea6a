-- Plan that a program was written from, with its forecast.
ALTER TABLE proposal ADD COLUMN plan TEXT;
