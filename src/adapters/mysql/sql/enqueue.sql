-- Writes one task into the outbox inside the caller's transaction. Every parameter is text or null; bytes travel as
-- base64, so that neither the character set nor the modes of the caller's session can change one. The part after `values`
-- is repeated for further tasks of the same statement. An existing id is a duplicate key: the statement is
-- undone, the transaction goes on, and the caller compares digests.
-- params: task_id text, task_name text, queue text, priority text, args text, kwargs text, embed text, options text, digest text, schema_version text, payload_version text, eta_ms text, expires_ms text, idempotency_key text, ordering_key text, parks_key text, redacted_args text, redacted_kwargs text
insert into outlast_outbox (task_id, task_name, queue, priority, args, kwargs, embed, options, digest, schema_version,
  payload_version, available_at, eta, expires_at,
  idempotency_key, ordering_key, parks_key, redacted_args, redacted_kwargs, error_history, created_at, updated_at)
values ($1, $2, $3, $4, from_base64($5), from_base64($6), from_base64($7), from_base64($8), $9, $10,
  $11, coalesce(timestamp '1970-01-01 00:00:00' + interval cast($12 as signed) * 1000 microsecond, utc_timestamp(6)),
  timestamp '1970-01-01 00:00:00' + interval cast($12 as signed) * 1000 microsecond,
  timestamp '1970-01-01 00:00:00' + interval cast($13 as signed) * 1000 microsecond,
  from_base64($14), from_base64($15), $16, from_base64($17), from_base64($18), '', utc_timestamp(6), utc_timestamp(6))
