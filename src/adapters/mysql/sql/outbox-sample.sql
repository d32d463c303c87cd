-- Rows by state, and how many are in a format this version does not know: a relay must be upgraded. It reads an index and
-- no row.
-- params: known_format int
select state, count(*) as count, sum(schema_version > $1) as unsupported
from outlast_outbox force index (outlast_outbox_due) group by state
