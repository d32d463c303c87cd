-- The row of one task.
-- params: known_format int, task_id text
select id::text as row, task_id as id, task_name as name, queue, state, schema_version <= $1 as supported, retries, last_error,
  created_at, available_at, ordering_key
from outlast_outbox where task_id = $2
