-- Ends reservations, and returns the tasks that waited for them: as many as were ended, longest waiting first.
-- params: keys text[], task_ids text[], runs text[]
with gone as (
  delete from outlast_place p using unnest($1::text[], $2::text[], $3::text[]) as f(key, task_id, run)
  where p.key = f.key and p.task_id = f.task_id and p.run = f.run
  returning p.key
), freed as (
  select key, count(*) as n from gone group by key
), next as (
  select w.key, w.task_id from freed f cross join lateral (
    select key, task_id from outlast_place_wanted where key = f.key
    order by since, task_id limit f.n for update skip locked) w
), woken as (
  delete from outlast_place_wanted w using next n where w.key = n.key and w.task_id = n.task_id
  returning w.task_id
)
select distinct task_id from woken
