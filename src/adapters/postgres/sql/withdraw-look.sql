-- The row of a task that was cancelled before it was published, while it exists: its follow-ups are notified first.
-- params: task_id text
select o.task_id as id, o.task_name as name, o.queue, o.priority, o.payload_version,
  '\x5b'::bytea || o.args || '\x2c'::bytea || o.kwargs || '\x2c'::bytea || o.embed || '\x5d'::bytea as body,
  o.options, o.digest, case when isfinite(o.eta) then (extract(epoch from o.eta) * 1000)::bigint::text end as eta_ms,
  case when isfinite(o.expires_at) then (extract(epoch from o.expires_at) * 1000)::bigint::text end as expires_ms
from outlast_outbox o where o.task_id = $1 and o.state = 'pending'
