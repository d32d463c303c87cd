-- A row that died on the relay becomes pending again. A letter that parked its key takes its old position, before all rows
-- that waited behind it; any other goes to the end. The caller has locked the letter and compared its version, and deletes
-- it in the same transaction. An existing row with the same id is a duplicate key: the letter stays where it is.
-- params: task_id text
insert into outlast_outbox (id, task_id, task_name, queue, priority, args, kwargs, embed, options, digest, schema_version,
  payload_version, available_at, eta, expires_at, idempotency_key, deaths, error_history, created_at, updated_at,
  ordering_key, parks_key, redacted_args, redacted_kwargs)
select case when parks_key then row_id else null end,
  task_id, task_name, queue, priority, args, kwargs, embed, options, digest, schema_version,
  payload_version, utc_timestamp(6), eta, expires_at, idempotency_key, version,
  case when length(error_history) > 262144 then error_history else concat(error_history, '{"at":"',
    date_format(utc_timestamp(6), '%Y-%m-%dT%H:%i:%s.%fZ'), '","step":"revived","epoch":0}', char(10)) end, created_at, utc_timestamp(6),
  ordering_key, parks_key, redacted_args, redacted_kwargs
from outlast_dead_letter where task_id = $1
