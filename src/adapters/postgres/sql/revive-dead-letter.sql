-- A row that died on the relay becomes pending again, once: the version names the death that is undone. A row with the
-- same id that is in the way leaves the letter where it is.
-- params: task_id text, version int
with back as (
  insert into outlast_outbox (task_id, task_name, queue, priority, args, kwargs, embed, options, digest, schema_version,
    payload_version, available_at, eta, expires_at, idempotency_key, deaths, error_history, created_at)
  select task_id, task_name, queue, priority, args, kwargs, embed, options, digest, schema_version,
    payload_version, clock_timestamp(), eta, expires_at, idempotency_key, version, error_history, created_at
  from outlast_dead_letter where task_id = $1 and version = $2
  on conflict (task_id) do nothing
  returning task_id
), gone as (
  delete from outlast_dead_letter d using back where d.task_id = back.task_id returning d.task_id
), note as (select pg_notify('outlast_outbox', '') from back)
select (select count(*) from gone)::text as gone, (select count(*) from note)::text as notified,
  (select count(*) from outlast_dead_letter where task_id = $1)::text as known
