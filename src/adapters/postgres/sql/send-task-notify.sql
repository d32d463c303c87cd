-- As send-task.sql, and wakes the workers when the caller commits.
-- params: task_id text, task_name text, queue text, priority text, body text, options text, digest text, payload_version text
with put as (
  insert into outlast_task (id, name, queue, priority, body, options, digest, payload_version, state)
  select $1::text, $2::text, $3::text, $4::text::smallint, $5::text::bytea, $6::text::bytea, $7::text, $8::text::smallint,
    'waiting'
  where not exists (select 1 from outlast_tier t where t.role = 'broker' and t.store <> 'database')
  returning id
)
select set_config('outlast.transaction', coalesce(nullif(current_setting('outlast.transaction', true), ''), pg_current_xact_id()::text), true) as mark
where not exists (select 1 from put)
union all
select null from put where pg_notify('outlast_task', '')::text is null
