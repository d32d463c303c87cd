-- Milliseconds until the next pending row is due; no row when there is none.
-- params: known_format int
select greatest(0, extract(epoch from available_at - clock_timestamp()) * 1000)::bigint::text as wait_ms
from outlast_outbox where state = 'pending' and schema_version <= $1 order by available_at, id limit 1
