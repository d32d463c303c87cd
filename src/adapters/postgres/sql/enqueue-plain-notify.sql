-- As enqueue-plain.sql, and wakes the relays when the caller commits.
-- params: task_id text, task_name text, queue text, priority text, kwargs text, options text, digest text, payload_version text
insert into outlast_outbox (task_id, task_name, queue, priority, args, kwargs, embed, options, digest, schema_version,
  payload_version, available_at)
values ($1::text, $2::text, $3::text, $4::text::smallint, '[]', $5::text::bytea,
  :'mark_nothing_follows', $6::text::bytea, $7::text, 1,
  $8::text::smallint, now())
returning pg_notify('outlast_outbox', '')::text as notified
