-- The row of one task.
-- params: known_format int, task_id text
select id::text as row, task_id as id, task_name as name, queue, state, schema_version <= $1 as supported, retries, last_error,
  to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created,
  to_char(available_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as available, ordering_key, options
from outlast_outbox where task_id = $2
