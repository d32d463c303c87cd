-- The newest rows of the outbox.
-- params: known_format int, limit int
select o.id::text as row, task_id as id, task_name as name, queue, state, schema_version <= $1 as supported, retries, last_error,
  created_at, available_at, ordering_key
from outlast_outbox o order by o.id desc limit $2
