-- A key as people see it.
-- params: key text
select case when k.freed_by = k.task_id || '@' || k.epoch then 'free' else k.state end as state,
  coalesce(k.origin, k.task_id) as origin, k.task_id, k.epoch::text as epoch, k.run, k.digest, k.result, k.waiters::text as waiters,
  (extract(epoch from clock_timestamp() - k.held_at) * 1000)::bigint::text as held_ms,
  (extract(epoch from k.expires_at - clock_timestamp()) * 1000)::bigint::text as left_ms
from outlast_idempotency k
where k.key = $1::text and coalesce(k.expires_at > clock_timestamp(), true)
