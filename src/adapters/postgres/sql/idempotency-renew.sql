-- Moves the end of a lease that is not over.
-- params: key text, task_id text, epoch bigint, lease_ms bigint
update outlast_idempotency k set expires_at = clock_timestamp() + $4::bigint * interval '1 millisecond'
where k.key = $1::text and k.task_id = $2::text and k.epoch = $3::bigint and k.state = 'held'
  and k.freed_by is distinct from k.task_id || '@' || k.epoch and k.expires_at > clock_timestamp()
returning k.key
