-- Ends up to $4 dead tasks, oldest death first: bytes, error, history and steps are deleted at once. A tombstone that turns
-- away late copies stays for a while. A task that is just being revived is skipped.
-- params: dead_ms bigint, created_ms bigint, name_like text, limit int, keep_ms bigint
with over as materialized (
  select id from outlast_task
  where state = 'dead'
    and ($1::bigint is null or ended_at < statement_timestamp() - $1::bigint * interval '1 millisecond')
    and ($2::bigint is null or created_at < statement_timestamp() - $2::bigint * interval '1 millisecond')
    and ($3::text is null or name like $3::text escape E'\\')
  order by ended_at, id limit $4 for update skip locked
), gone as (
  update outlast_task t set
    state = 'cancelled', body = '', options = '{}', error = null, checkpoint = null,
    keep_until = clock_timestamp() + $5::bigint * interval '1 millisecond', history = outlast_line('purged', t.epoch, null, null)
  from over where t.id = over.id and t.state = 'dead'
  returning t.id, t.name
), steps as (
  delete from outlast_step s using gone where s.task_id = gone.id
), also as (
  delete from outlast_effect e using gone where e.task_id = gone.id and e.ttl_ms is null
)
select name, count(*)::text as count from gone group by name order by name collate "C"
