-- Every objective with what was counted for it by minutes and hours, and the clock. Without objectives one row, of the clock.
-- params: figures text[]
select (extract(epoch from statement_timestamp()) * 1000)::bigint::text as store_ms,
  o.name, o.success::text as success, o.within_ms::text as within_ms, o.latency::text as latency, c.figure, (extract(epoch from c.at) * 1000)::bigint::text as at_ms, c.count::text as count
from (select 1) one
left join outlast_objective o on true
left join lateral (
  select figure, at, sum(count) as count
  from (
    select figure, at, count from outlast_tally t where t.name = o.name and t.at > '-infinity'
    union all select figure, at, count from outlast_tally_sum s where s.name = o.name and s.at > '-infinity'
  ) c
  where figure = any($1::text[])
  group by figure, at
) c on true
order by o.name
