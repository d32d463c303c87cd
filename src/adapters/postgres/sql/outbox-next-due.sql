-- Milliseconds until the next pending row is due; no row when there is none.
-- params: none
select greatest(0, extract(epoch from available_at - clock_timestamp()) * 1000)::bigint::text as wait_ms
from outlast_outbox where state = 'pending' order by available_at, id limit 1
