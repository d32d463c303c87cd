-- Keeps messages that can never run as dead letters, bytes unchanged. The same message twice is one letter.
-- params: ids text[], names text[], queues text[], priorities int[], versions int[], bodies bytea[], options bytea[], digests text[], etas bigint[], expires bigint[], reasons text[], errors bytea[]
with put as (
  insert into outlast_task (id, name, queue, priority, payload_version, body, options, digest, eta, expires_at, state, ending, ended_at, reason, error, version, history)
  select m.id, m.name, m.queue, m.priority, m.version, m.body, m.options, m.digest, to_timestamp(m.eta_ms / 1000.0), to_timestamp(m.expires_ms / 1000.0),
    'dead', 'dead', clock_timestamp(), m.reason, m.error, 1, outlast_line('buried', 0, null, m.error)
  from unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::int[], $6::bytea[], $7::bytea[], $8::text[], $9::bigint[], $10::bigint[], $11::text[], $12::bytea[])
    as m(id, name, queue, priority, version, body, options, digest, eta_ms, expires_ms, reason, error)
  on conflict (id) do nothing
  returning name, queue
)
insert into outlast_tally (name, queue, figure, at, count)
select name, queue, 'dead', '-infinity', count(*) from put group by name, queue
