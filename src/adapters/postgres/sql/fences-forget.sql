-- Deletes fences that were over the last time as well, and their steps; steps of a key stay until they expire. A fence that
-- is in use, or was used since, is left alone.
-- params: ids text[]
with over as materialized (
  select task_id from outlast_fence
  where task_id = any($1::text[]) and is_over and look_at < clock_timestamp() for update skip locked
), gone as (
  delete from outlast_fence f using over where f.task_id = over.task_id returning f.task_id
), steps as (
  delete from outlast_effect e using gone where e.task_id = gone.task_id and e.ttl_ms is null
), also as (
  delete from outlast_step s using gone where s.task_id = gone.task_id
), keyed as (
  update outlast_effect e set ends_at = clock_timestamp() + e.ttl_ms * interval '1 millisecond'
  from gone where e.task_id = gone.task_id and e.ttl_ms is not null
)
select count(*)::text as forgotten from gone
