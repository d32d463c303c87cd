-- Copies a row that spent its retries to the dead letters, with everything it had, if it is still ours. settle-dead-row.sql
-- deletes it in the same transaction.
-- A letter with this id and other bytes stays as it is; the new one is stored beside it under id and digest.
-- params: token text, row bigint, error text, line bytes
insert into outlast_dead_letter (task_id, version, task_name, queue, priority, args, kwargs, embed, options, digest,
  schema_version, payload_version, eta, expires_at, idempotency_key, retries, failure_reason, error_history, created_at,
  dead_at, row_id, ordering_key, parks_key, redacted_args, redacted_kwargs)
select case when exists (select 1 from outlast_dead_letter l where l.task_id = o.task_id and l.digest <> o.digest)
    then concat(o.task_id, '#', left(o.digest, 16)) else o.task_id end,
  o.deaths + 1, o.task_name, o.queue, o.priority, o.args, o.kwargs, o.embed, o.options, o.digest,
  o.schema_version, o.payload_version, o.eta, o.expires_at, o.idempotency_key, o.retries + 1, $3,
  case when length(o.error_history) > 262144 then o.error_history
    else concat(o.error_history, '{"at":"', date_format(utc_timestamp(6), '%Y-%m-%dT%H:%i:%s.%fZ'), '",', $4) end,
  o.created_at, utc_timestamp(6), o.id, o.ordering_key, o.parks_key, o.redacted_args, o.redacted_kwargs
from outlast_outbox o where o.id = $2 and o.claim_token = $1 and o.state = 'claimed'
on duplicate key update version = outlast_dead_letter.version + 1, failure_reason = values(failure_reason),
  error_history = case when length(outlast_dead_letter.error_history) > 262144 then outlast_dead_letter.error_history
    else concat(outlast_dead_letter.error_history, values(error_history)) end,
  dead_at = values(dead_at), row_id = values(row_id)
