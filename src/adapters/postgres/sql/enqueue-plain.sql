-- As enqueue.sql, for the many tasks that are only a name and an object: no positional arguments, no follow-ups, no time, no
-- order, no redacted copies. The values they have in common are written here, so that a process need not send them each
-- time, nor the server read them.
-- params: task_id text, task_name text, queue text, priority text, kwargs text, options text, digest text, payload_version text
insert into outlast_outbox (task_id, task_name, queue, priority, args, kwargs, embed, options, digest, schema_version,
  payload_version, available_at)
values ($1::text, $2::text, $3::text, $4::text::smallint, '[]', $5::text::bytea,
  :'mark_nothing_follows', $6::text::bytea, $7::text, 1,
  $8::text::smallint, now())
