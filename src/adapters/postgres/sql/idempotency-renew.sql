-- Extends a lease that is not over.
-- params: key text, task_id text, epoch bigint, run text, lease_ms bigint
update outlast_idempotency k set expires_at = clock_timestamp() + $5::bigint * interval '1 millisecond'
where k.key = $1::text and k.task_id = $2::text and k.epoch = $3::bigint and coalesce(k.run, $4::text) = $4::text and k.state = 'held'
  and k.freed_by is distinct from k.task_id || '@' || k.epoch and k.expires_at > clock_timestamp()
returning k.key
