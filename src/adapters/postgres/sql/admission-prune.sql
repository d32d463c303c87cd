-- Forgets permits that are over, wishes an hour old (whoever has one asks again within minutes), and keys nobody used for a
-- day, whose rate has come back and under which nothing runs.
-- params: none
with permits as (
  delete from outlast_permit where ends_at <= clock_timestamp() returning 1
), wishes as (
  delete from outlast_place_wanted where since < clock_timestamp() - interval '1 hour' returning 1
), keys as (
  delete from outlast_admission s
  where s.used_at < clock_timestamp() - interval '1 day' and s.tat_us < extract(epoch from clock_timestamp()) * 1000000
    and not exists (select 1 from outlast_place p where p.key = s.key)
  returning 1
)
select ((select count(*) from permits) + (select count(*) from wishes) + (select count(*) from keys))::text as pruned
