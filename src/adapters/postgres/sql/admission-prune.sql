-- Deletes expired permits, waiting entries an hour old (their tasks ask again within minutes), and keys that were unused for
-- a day, whose rate has recovered and under which nothing runs. Up to $1 of each; the caller repeats it for the rest.
-- params: limit int
with permits as (
  delete from outlast_permit where token in (
    select token from outlast_permit where ends_at <= clock_timestamp() limit $1 for update skip locked) returning 1
), wishes as (
  delete from outlast_place_wanted where (key, task_id) in (
    select key, task_id from outlast_place_wanted where since < clock_timestamp() - interval '1 hour'
    limit $1 for update skip locked) returning 1
), keys as (
  delete from outlast_admission where key in (
    select s.key from outlast_admission s
    where s.used_at < clock_timestamp() - interval '1 day' and s.tat_us < extract(epoch from clock_timestamp()) * 1000000
      and not exists (select 1 from outlast_place p where p.key = s.key)
    limit $1 for update skip locked)
  returning 1
)
select ((select count(*) from permits) + (select count(*) from wishes) + (select count(*) from keys))::text as pruned
