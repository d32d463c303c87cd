-- Frees a key that this run holds; on request it is deleted with its result. If effects under the key are remembered, the
-- row stays for that time, free for any task.
-- params: key text, task_id text, epoch bigint, run text, even_done boolean
with mine as materialized (
  select k.key, k.waiters, k.ttl_ms is null or $5::boolean as is_forgotten from outlast_idempotency k
  where k.key = $1::text and k.task_id = $2::text and k.epoch = $3::bigint and coalesce(k.run, $4::text) = $4::text
    and ($5::boolean or (k.state = 'held' and k.freed_by is distinct from k.task_id || '@' || k.epoch))
    and coalesce(k.expires_at > clock_timestamp(), true)
  for update
), forgotten as (
  delete from outlast_idempotency k using mine where k.key = mine.key and mine.is_forgotten
), freed as (
  update outlast_idempotency k set
    freed_by = k.task_id || '@' || k.epoch, expires_at = clock_timestamp() + k.ttl_ms * interval '1 millisecond', waiters = '{}'
  from mine where k.key = mine.key and not mine.is_forgotten
)
select mine.waiters::text as waiters from mine
