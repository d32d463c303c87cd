-- Deletes up to $4 dead letters of the relay, oldest death first. This frees the key of a letter that parked it. A letter
-- that is just being revived is skipped.
-- params: dead_ms bigint, created_ms bigint, name_like text, limit int
with over as materialized (
  select task_id from outlast_dead_letter
  where ($1::bigint is null or dead_at < statement_timestamp() - $1::bigint * interval '1 millisecond')
    and ($2::bigint is null or created_at < statement_timestamp() - $2::bigint * interval '1 millisecond')
    and ($3::text is null or task_name like $3::text escape E'\\')
  order by dead_at, task_id limit $4 for update skip locked
), gone as (
  delete from outlast_dead_letter d using over where d.task_id = over.task_id returning d.task_name, d.parks_key
), note as (select pg_notify('outlast_outbox', '') from (select 1 from gone where parks_key limit 1) g)
select task_name as name, count(*)::text as count, (select count(*) from note)::text as notified
from gone group by task_name order by task_name collate "C"
