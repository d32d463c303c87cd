-- Rows that this transaction has locked, before it marks them: the statements that lock them return their length only.
-- params: rows bigint list
select o.id as row_id, o.task_id as id, o.task_name as name, o.queue, o.priority, o.payload_version,
  concat('[', o.args, ',', o.kwargs, ',', o.embed, ']') as body, o.options, o.digest,
  timestampdiff(microsecond, '1970-01-01 00:00:00', o.eta) div 1000 as eta_ms,
  timestampdiff(microsecond, '1970-01-01 00:00:00', o.expires_at) div 1000 as expires_ms, o.retries, o.claims,
  timestampdiff(microsecond, '1970-01-01 00:00:00', o.available_at) div 1000 as available_ms,
  timestampdiff(microsecond, greatest(o.created_at, coalesce(o.eta, o.created_at)), utc_timestamp(6)) / 1000 as due_ms,
  o.ordering_key is not null as is_keyed
from outlast_outbox o where o.id in ($1)
