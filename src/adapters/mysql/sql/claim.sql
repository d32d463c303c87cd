-- Locks up to $1 due rows without an ordering key, for a claim: claim-rows.sql reads them, claim-mark.sql assigns them to the
-- relay. Rows that others have locked are skipped. Rows in an unknown format are left to a newer version. Rows due before the
-- floor are left out; null is no floor.
-- params: limit int, known_format int, floor_ms bigint
select o.id as row_id, length(o.args) + length(o.kwargs) + length(o.embed) as bytes
from outlast_outbox o force index (outlast_outbox_plain)
where o.ordering_key is null and o.state = 'pending' and o.available_at <= utc_timestamp(6) and o.schema_version <= $2
  and o.available_at >= coalesce(timestamp '1970-01-01 00:00:00' + interval $3 * 1000 microsecond, timestamp '0001-01-01 00:00:00')
order by o.available_at, o.id limit $1 for update skip locked
