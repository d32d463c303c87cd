-- Rows of the outbox, oldest first, after a row.
-- params: known_format int, after text, limit int
select o.id::text as row, task_id as id, task_name as name, queue, state, schema_version <= $1 as supported, retries, last_error,
  to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created,
  to_char(available_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as available, ordering_key, options
from outlast_outbox o where $2::text is null or o.id > $2::text::bigint order by o.id limit $3
