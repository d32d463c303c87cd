-- Milliseconds until the next row that may go is due, a day at most; no row when there is none. A row behind another of its
-- key is woken by that one's end, not by the clock.
-- params: known_format int, floor_ms float8
select (extract(epoch from least(greatest(o.available_at, clock_timestamp()), clock_timestamp() + interval '1 day') - clock_timestamp()) * 1000)::bigint::text as wait_ms
from outlast_outbox o where o.state = 'pending' and o.schema_version <= $1
    and o.available_at >= coalesce(to_timestamp($2::float8 / 1000), '-infinity')
    and (o.ordering_key is null or (
      not exists (select 1 from outlast_outbox e where e.ordering_key = o.ordering_key and e.id < o.id)
      and not exists (select 1 from outlast_dead_letter d where d.ordering_key = o.ordering_key and d.parks_key)))
order by o.available_at, o.id limit 1
