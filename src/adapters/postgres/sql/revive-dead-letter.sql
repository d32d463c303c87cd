-- A row that died on the relay becomes pending again, once: the version names the death that is undone. If a row with the
-- same id exists, or the task has expired, the letter stays where it is. A letter that parked its key takes its old
-- position, before all rows that waited behind it; any other goes to the end. The letter is locked first, so that a purge
-- does not delete what is just coming back.
-- params: task_id text, version int
with letter as materialized (
  select * from outlast_dead_letter
  where task_id = $1 and version = $2 and (expires_at is null or expires_at > clock_timestamp()) for update
), back as (
  insert into outlast_outbox (id, task_id, task_name, queue, priority, args, kwargs, embed, options, digest, schema_version,
    payload_version, available_at, eta, expires_at, idempotency_key, deaths, error_history, created_at,
    ordering_key, parks_key, redacted_args, redacted_kwargs)
  overriding system value
  select case when parks_key then row_id else nextval(pg_get_serial_sequence('outlast_outbox', 'id')) end,
    task_id, task_name, queue, priority, args, kwargs, embed, options, digest, schema_version,
    payload_version, clock_timestamp(), eta, expires_at, idempotency_key, version,
    outlast_history(error_history, outlast_line('revived', 0, null, null)), created_at,
    ordering_key, parks_key, redacted_args, redacted_kwargs
  from letter
  on conflict (task_id) do nothing
  returning task_id
), gone as (
  delete from outlast_dead_letter d using back where d.task_id = back.task_id returning d.task_id
), note as (select pg_notify('outlast_outbox', '') from back)
select case
    when exists (select 1 from gone) and exists (select 1 from note) then 'ok'
    when exists (select 1 from outlast_dead_letter where task_id = $1 and version = $2 and expires_at <= clock_timestamp()) then 'expired'
    when exists (select 1 from outlast_dead_letter where task_id = $1) then 'conflict'
    else 'absent'
  end as status
