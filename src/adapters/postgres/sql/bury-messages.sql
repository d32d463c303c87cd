-- Keeps messages that can never run as dead letters, bytes as they came. The same message twice is one letter.
-- params: ids text[], names text[], queues text[], priorities int[], versions int[], bodies bytea[], options bytea[], digests text[], reasons text[], errors bytea[]
insert into outlast_task (id, name, queue, priority, payload_version, body, options, digest, state, ending, ended_at, reason, error, version, history)
select m.id, m.name, m.queue, m.priority, m.version, m.body, m.options, m.digest, 'dead', 'dead', clock_timestamp(), m.reason, m.error, 1,
  outlast_line('buried', 0, null, m.error)
from unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::int[], $6::bytea[], $7::bytea[], $8::text[], $9::text[], $10::bytea[])
  as m(id, name, queue, priority, version, body, options, digest, reason, error)
on conflict (id) do nothing
