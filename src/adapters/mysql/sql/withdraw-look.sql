-- The row of a task that was cancelled before it was published, while it exists: its follow-ups are notified first.
-- params: task_id text
select o.id as row_id, o.task_id as id, o.task_name as name, o.queue, o.priority, o.payload_version,
  concat('[', o.args, ',', o.kwargs, ',', o.embed, ']') as body, o.options, o.digest,
  timestampdiff(microsecond, '1970-01-01 00:00:00', o.eta) div 1000 as eta_ms,
  timestampdiff(microsecond, '1970-01-01 00:00:00', o.expires_at) div 1000 as expires_ms, o.retries, o.claims
from outlast_outbox o where o.task_id = $1 and o.state = 'pending'
