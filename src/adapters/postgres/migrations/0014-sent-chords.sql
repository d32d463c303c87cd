-- breaking: no
-- Chords are open from the moment their headers are sent, also those whose parts nobody here runs.

-- What their sender said of them; null: known only by its parts.
alter table outlast_chord add column size integer, add column body text;
