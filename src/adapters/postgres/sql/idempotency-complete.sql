-- Keeps the result of the run that holds the key, for its time from now. Told again it changes nothing.
-- params: key text, task_id text, epoch bigint, result bytea, ttl_ms bigint
with moved as (
  update outlast_idempotency k set
    state = 'done', result = $4::bytea, expires_at = clock_timestamp() + $5::bigint * interval '1 millisecond'
  where k.key = $1::text and k.task_id = $2::text and k.epoch = $3::bigint and k.state = 'held'
    and k.freed_by is distinct from k.task_id || '@' || k.epoch
    and coalesce(k.expires_at > clock_timestamp(), true)
  returning k.waiters
)
select m.waiters::text as waiters from moved m
union all
select k.waiters::text from outlast_idempotency k
where k.key = $1::text and k.task_id = $2::text and k.epoch = $3::bigint and k.state = 'done' and k.expires_at > clock_timestamp()
