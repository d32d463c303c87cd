-- As send-task.sql, and wakes the workers when the caller commits.
-- params: task_id text, task_name text, queue text, priority text, body text, options text, digest text, payload_version text
insert into outlast_task (id, name, queue, priority, body, options, digest, payload_version, state)
values ($1::text, $2::text, $3::text, $4::text::smallint, $5::text::bytea, $6::text::bytea, $7::text,
  $8::text::smallint, 'waiting')
returning pg_notify('outlast_task', '')::text as notified
