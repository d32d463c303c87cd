-- The newest rows of the outbox.
-- params: known_format int, limit int
select o.id as row_id, o.task_id as id, o.task_name as name, o.queue, o.state, o.schema_version <= $1 as supported, o.retries,
  o.last_error, o.ordering_key, o.options, timestampdiff(microsecond, '1970-01-01 00:00:00', o.created_at) div 1000 as created_ms,
  timestampdiff(microsecond, '1970-01-01 00:00:00', o.available_at) div 1000 as available_ms
from outlast_outbox o order by o.id desc limit $2
