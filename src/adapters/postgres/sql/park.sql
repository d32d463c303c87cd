-- Takes custody of messages: waiting, due after their delay, or at their eta where it is null. A record that is there
-- already is left alone; the same id with other bytes is kept as a dead letter under id and digest. Answers what is
-- accounted for: one that another session is just inserting is not, and must be asked about again.
-- params: ids text[], names text[], queues text[], priorities int[], versions int[], bodies bytea[], options bytea[], digests text[], etas bigint[], expires bigint[], delays_ms bigint[]
with msg as (
  select * from unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::int[], $6::bytea[], $7::bytea[], $8::text[], $9::bigint[], $10::bigint[], $11::bigint[])
    with ordinality as m(id, name, queue, priority, version, body, options, digest, eta_ms, expires_ms, delay_ms, place)
), put as (
  insert into outlast_task (id, name, queue, priority, payload_version, body, options, digest, eta, expires_at, state, due, history)
  select id, name, queue, priority, version, body, options, digest, to_timestamp(eta_ms / 1000.0), to_timestamp(expires_ms / 1000.0),
    'waiting', case when delay_ms is null then greatest(clock_timestamp(), to_timestamp(eta_ms / 1000.0))
      else clock_timestamp() + delay_ms * interval '1 millisecond' end, outlast_line('arrived', 0, null, null)
  from msg order by place
  on conflict (id) do nothing
  returning id, digest
), known as materialized (
  select m.id, m.digest, coalesce(t.digest <> m.digest, false) as is_other from msg m join outlast_task t on t.id = m.id
), buried as (
  insert into outlast_task (id, name, queue, priority, payload_version, body, options, digest, state, ending, ended_at, reason, error, version, history)
  select m.id || '#' || left(m.digest, 16), m.name, m.queue, m.priority, m.version, m.body, m.options, m.digest, 'dead', 'dead',
    clock_timestamp(), 'ERR_DIGEST', convert_to('{"type":"ERR_DIGEST","message":"another task has this id with other bytes","traceback":""}', 'UTF8'), 1,
    outlast_line('buried', 0, null, null)
  from msg m join known k on k.id = m.id and k.digest = m.digest and k.is_other
  on conflict (id) do nothing
), came as (
  -- As in `begin-messages`: cancelled before it came.
  update outlast_task t set name = m.name, queue = m.queue, priority = m.priority, payload_version = m.version, body = m.body,
    options = m.options, digest = m.digest
  from msg m
  where t.id = m.id and t.state = 'cancelled' and t.digest is null and outlast_follows(m.body, m.options)
), note as (select pg_notify('outlast_task', '') from (select 1 from put limit 1) p)
select id, digest, (select count(*) from note)::text as notified from put
union all
select id, digest, '0' from known
