-- One row that could not be published, with its bytes and history.
-- params: task_id text
select task_id as id, task_name as name, queue, failure_reason as error, version,
  to_char(dead_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as dead_at,
  to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created,
  to_char(expires_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as expires,
  '\x5b'::bytea || args || '\x2c'::bytea || kwargs || '\x2c'::bytea || embed || '\x5d'::bytea as body,
  options, redacted_args, redacted_kwargs, error_history as history, ordering_key
from outlast_dead_letter where task_id = $1
