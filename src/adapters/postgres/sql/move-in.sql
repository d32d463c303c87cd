-- Puts tasks of another tier into the outbox, dead ones among its dead letters, each once: tasks that the same move has put
-- in before are left alone, whatever their state is now.
-- params: ids text[], names text[], queues text[], priorities int[], versions int[], args bytea[], kwargs bytea[], embeds bytea[], options bytea[], digests text[], etas bigint[], expires bigint[], delays_ms bigint[], reasons text[], errors bytea[]
with item as (
  select *, to_timestamp(eta_ms / 1000.0) as eta, to_timestamp(expires_ms / 1000.0) as expires_at
  from unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::int[], $6::bytea[], $7::bytea[], $8::bytea[], $9::bytea[], $10::text[],
    $11::bigint[], $12::bigint[], $13::bigint[], $14::text[], $15::bytea[])
    as i(id, name, queue, priority, version, args, kwargs, embed, options, digest, eta_ms, expires_ms, delay_ms, reason, error)
), marked as (
  insert into outlast_moved (task_id) select id from item on conflict (task_id) do nothing returning task_id
), put as (
  insert into outlast_outbox (task_id, task_name, queue, priority, args, kwargs, embed, options, digest, schema_version,
    payload_version, available_at, eta, expires_at)
  select i.id, i.name, i.queue, i.priority, i.args, i.kwargs, i.embed, i.options, i.digest, 1, i.version,
    clock_timestamp() + i.delay_ms * interval '1 millisecond', i.eta, i.expires_at
  from item i join marked m on m.task_id = i.id where i.reason is null
  on conflict (task_id) do nothing returning task_id
), letters as (
  insert into outlast_dead_letter (task_id, version, task_name, queue, priority, args, kwargs, embed, options, digest, schema_version,
    payload_version, eta, expires_at, retries, failure_reason, error_history, created_at)
  select i.id, 1, i.name, i.queue, i.priority, i.args, i.kwargs, i.embed, i.options, i.digest, 1, i.version, i.eta, i.expires_at, 0,
    i.reason, outlast_line('dead', 0, null, i.error), clock_timestamp()
  from item i join marked m on m.task_id = i.id where i.reason is not null
  on conflict (task_id) do nothing returning task_id
)
select ((select count(*) from put) + (select count(*) from letters))::text as moved,
  (select count(*) from (select pg_notify('outlast_outbox', '') from put limit 1) n)::text as notified
