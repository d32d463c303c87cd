-- Forgets steps of keys whose time is over.
-- params: limit int
with over as materialized (
  select effect_key, step from outlast_effect where ends_at < clock_timestamp() order by ends_at limit $1 for update skip locked
), gone as (
  delete from outlast_effect e using over where e.effect_key = over.effect_key and e.step = over.step returning e.step
)
select count(*)::text as pruned from gone
