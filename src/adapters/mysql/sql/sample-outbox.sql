-- How many rows there are of each state and queue, and how many in a format this version does not know. It reads an index
-- and no row.
-- params: known_format int
select state, queue, count(*) as count, sum(schema_version > $1) as unsupported
from outlast_outbox force index (outlast_outbox_due) group by state, queue order by queue, state
