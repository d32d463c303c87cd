-- Milliseconds until the next row that may go is due, a day at most; null when there is none. A row behind another of its
-- key is woken by that one's end, not by the clock. Of a thousand keys the first rows are looked at: with more of them there
-- is mostly one that is due, and a relay looks every `idleTime` in any case.
-- params: known_format int, floor_ms float8
with recursive first as (
  (select o.ordering_key, o.state, o.available_at, o.schema_version from outlast_outbox o
    where o.ordering_key is not null order by o.ordering_key, o.id limit 1)
  union all
  select n.* from first f cross join lateral (
    select o.ordering_key, o.state, o.available_at, o.schema_version from outlast_outbox o
    where o.ordering_key > f.ordering_key order by o.ordering_key, o.id limit 1) n
), looked as (select f.* from first f limit 1000),
next as (
  (select o.available_at from outlast_outbox o where o.state = 'pending' and o.ordering_key is null and o.schema_version <= $1
    and o.available_at >= coalesce(to_timestamp($2::float8 / 1000), '-infinity')
  order by o.available_at, o.id limit 1)
  union all
  select s.available_at from looked s where s.state = 'pending' and s.schema_version <= $1
    and not exists (select 1 from outlast_dead_letter d where d.ordering_key = s.ordering_key and d.parks_key)
)
select (extract(epoch from least(greatest(min(n.available_at), clock_timestamp()), clock_timestamp() + interval '1 day') - clock_timestamp()) * 1000)::bigint::text as wait_ms
from next n having count(*) > 0
