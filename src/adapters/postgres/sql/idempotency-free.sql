-- Frees a key that this run holds; where asked for it is forgotten with its result. Where effects under the key are
-- remembered the row stays for that time, as one that is anybody's.
-- params: key text, task_id text, epoch bigint, even_done boolean
with mine as materialized (
  select k.key, k.waiters, k.ttl_ms is null or $4::boolean as is_forgotten from outlast_idempotency k
  where k.key = $1::text and k.task_id = $2::text and k.epoch = $3::bigint
    and ($4::boolean or (k.state = 'held' and k.freed_by is distinct from k.task_id || '@' || k.epoch))
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
