-- As send-task.sql, for a task with a time: it waits until its eta, or is not begun any more after `expires`.
-- params: task_id text, task_name text, queue text, priority text, body text, options text, digest text, payload_version text, eta_ms text, expires_ms text, notify text
with put as (
  insert into outlast_task (id, name, queue, priority, body, options, digest, payload_version, state, due, eta, expires_at)
  select $1::text, $2::text, $3::text, $4::text::smallint, $5::text::bytea, $6::text::bytea, $7::text, $8::text::smallint,
    'waiting', greatest(clock_timestamp(), to_timestamp($9::text::double precision / 1000)),
    to_timestamp($9::text::double precision / 1000), to_timestamp($10::text::double precision / 1000)
  where not exists (select 1 from outlast_tier t where t.role = 'broker' and t.store <> 'database')
  returning id
)
select set_config('outlast.transaction', coalesce(nullif(current_setting('outlast.transaction', true), ''), pg_current_xact_id()::text), true) as mark
where not exists (select 1 from put)
union all
select null from put where $11::text is not null and pg_notify('outlast_task', '')::text is null
