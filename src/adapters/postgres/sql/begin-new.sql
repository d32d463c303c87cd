-- Takes custody of messages that no record knows and that are not too late: what almost all of them are. Beside
-- `begin-messages`, which answers for the others, because that one takes longer to plan than this one to plan and run. The
-- own worker row is locked, as there; without it nothing is put in.
-- params: worker text, run text, budgets text, ids text[], names text[], queues text[], priorities int[], versions int[], bodies bytea[], options bytea[], digests text[], etas bigint[], expires bigint[]
with me as materialized (
  select id from outlast_worker where id = $1 and state = 'open' for key share
)
insert into outlast_task (id, name, queue, priority, payload_version, body, options, digest, eta, expires_at,
  state, epoch, run, owner, crash_budget, history)
select m.id, m.name, m.queue, m.priority, m.version, m.body, m.options, m.digest, to_timestamp(m.eta_ms / 1000.0),
  to_timestamp(m.expires_ms / 1000.0), 'running', 1, $2, me.id,
  coalesce(($3::jsonb ->> m.name)::int, ($3::jsonb ->> '*')::int), outlast_line('begun', 1, $1, null)
from me, unnest($4::text[], $5::text[], $6::text[], $7::int[], $8::int[], $9::bytea[], $10::bytea[], $11::text[], $12::bigint[], $13::bigint[])
  as m(id, name, queue, priority, version, body, options, digest, eta_ms, expires_ms)
where m.expires_ms is null or to_timestamp(m.expires_ms / 1000.0) > clock_timestamp()
on conflict (id) do nothing
returning id
