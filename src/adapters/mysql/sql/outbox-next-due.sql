-- Milliseconds until the next row that may go is due; no row when there is none. A row behind another of its key is woken
-- by that one's end, not by the clock.
-- params: known_format int, floor_ms bigint
select greatest(0, timestampdiff(microsecond, utc_timestamp(6), o.available_at)) div 1000 as wait_ms
from outlast_outbox o force index (outlast_outbox_due)
where o.state = 'pending' and o.schema_version <= $1
  and o.available_at >= coalesce(timestamp '1970-01-01 00:00:00' + interval $2 * 1000 microsecond, timestamp '0001-01-01 00:00:00')
  and (o.ordering_key is null or (
    not exists (select 1 from outlast_outbox e where e.ordering_key = o.ordering_key and e.id < o.id)
    and not exists (select 1 from outlast_dead_letter d where d.ordering_key = o.ordering_key and d.parks_key)))
order by o.available_at, o.id limit 1
