-- Deletes expired keys and the expired steps of keys.
-- params: limit int
with over as materialized (
  select effect_key, step from outlast_effect where ends_at < clock_timestamp() order by ends_at limit $1 for update skip locked
), gone as (
  delete from outlast_effect e using over where e.effect_key = over.effect_key and e.step = over.step returning e.step
), keys as (
  delete from outlast_effect_key where key_hash in (
    select key_hash from outlast_effect_key where ends_at < clock_timestamp() order by ends_at limit $1 for update skip locked)
)
select count(*)::text as pruned from gone
