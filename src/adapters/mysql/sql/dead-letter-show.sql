-- One dead letter with its bytes and history; what may be seen of its arguments instead of them where there is such a copy.
-- params: id text
select task_id as id, task_name as name, queue, failure_reason as error, version,
  timestampdiff(microsecond, '1970-01-01 00:00:00', dead_at) div 1000 as dead_ms,
  concat('[', coalesce(redacted_args, args), ',', coalesce(redacted_kwargs, kwargs), ',', embed, ']') as body,
  options, error_history
from outlast_dead_letter where task_id = $1
