-- Milliseconds until the next row that may go is due; null when there is none. A row behind another of its key is woken by
-- that one's end, not by the clock. Of a thousand keys the first rows are looked at: with more of them there is mostly one that
-- is due, and a relay looks every `idleTime` in any case.
-- params: known_format int, floor_ms bigint
select greatest(0, timestampdiff(microsecond, utc_timestamp(6), min(n.available_at))) div 1000 as wait_ms from (
  (select o.available_at from outlast_outbox o force index (outlast_outbox_plain)
    where o.ordering_key is null and o.state = 'pending' and o.schema_version <= $1
      and o.available_at >= coalesce(timestamp '1970-01-01 00:00:00' + interval $2 * 1000 microsecond, timestamp '0001-01-01 00:00:00')
    order by o.available_at, o.id limit 1)
  union all
  select h.available_at from (
    select min(id) as id from outlast_outbox force index (outlast_outbox_ordered)
    where ordering_key > '' group by ordering_key order by ordering_key limit 1000
  ) f straight_join outlast_outbox h on h.id = f.id
  where h.state = 'pending' and h.schema_version <= $1
    and not exists (select 1 from outlast_dead_letter d where d.ordering_key = h.ordering_key and d.parks_key)
) n
