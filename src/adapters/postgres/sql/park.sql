-- Takes custody of messages: waiting, due after their delay. A record that is there already is left alone.
-- params: ids text[], names text[], queues text[], priorities int[], versions int[], bodies bytea[], options bytea[], digests text[], etas bigint[], expires bigint[], delays_ms bigint[]
with msg as (
  select * from unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::int[], $6::bytea[], $7::bytea[], $8::text[], $9::bigint[], $10::bigint[], $11::bigint[])
    with ordinality as m(id, name, queue, priority, version, body, options, digest, eta_ms, expires_ms, delay_ms, place)
), put as (
  insert into outlast_task (id, name, queue, priority, payload_version, body, options, digest, eta, expires_at, state, due, history)
  select id, name, queue, priority, version, body, options, digest, to_timestamp(eta_ms / 1000.0), to_timestamp(expires_ms / 1000.0),
    'waiting', clock_timestamp() + delay_ms * interval '1 millisecond', outlast_line('arrived', 0, null, null)
  from msg order by place
  on conflict (id) do nothing
  returning id
), note as (select pg_notify('outlast_task', '') from (select 1 from put limit 1) p)
select (select count(*) from put)::text as parked, (select count(*) from note)::text as notified
