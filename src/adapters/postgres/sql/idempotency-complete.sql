-- Keeps the result of the run that holds the key, for its time from now. A repeat changes nothing.
-- params: key text, task_id text, epoch bigint, run text, result bytea, ttl_ms bigint
with moved as (
  update outlast_idempotency k set
    state = 'done', result = $5::bytea, expires_at = clock_timestamp() + $6::bigint * interval '1 millisecond'
  where k.key = $1::text and k.task_id = $2::text and k.epoch = $3::bigint and coalesce(k.run, $4::text) = $4::text and k.state = 'held'
    and k.freed_by is distinct from k.task_id || '@' || k.epoch
    and coalesce(k.expires_at > clock_timestamp(), true)
  returning k.waiters
)
select m.waiters::text as waiters from moved m
union all
select k.waiters::text from outlast_idempotency k
where k.key = $1::text and k.task_id = $2::text and k.epoch = $3::bigint and coalesce(k.run, $4::text) = $4::text and k.state = 'done' and k.expires_at > clock_timestamp()
