-- One row that could not be published, with its bytes and history.
-- params: task_id text
select d.task_id as id, d.task_name as name, d.queue, d.failure_reason as error, d.version,
  date_format(d.dead_at, '%Y-%m-%dT%H:%i:%s.%fZ') as dead_at,
  timestampdiff(microsecond, '1970-01-01 00:00:00', d.created_at) div 1000 as created_ms,
  timestampdiff(microsecond, '1970-01-01 00:00:00', d.expires_at) div 1000 as expires_ms,
  concat('[', d.args, ',', d.kwargs, ',', d.embed, ']') as body, d.options, d.redacted_args, d.redacted_kwargs,
  d.error_history as history, d.ordering_key
from outlast_dead_letter d where d.task_id = $1
