-- Takes custody of messages without a record that are neither too late nor too early: almost all of them. Separate from
-- `begin-messages`, which answers for the others, because that takes longer to plan than this takes to plan and run. As
-- there, the own worker row is locked; without it, or on a server without a settled generation, nothing is inserted.
-- params: worker text, run text, budgets text, ids text[], names text[], queues text[], priorities int[], versions int[], bodies bytea[], options bytea[], digests text[], etas bigint[], expires bigint[]
with me as materialized (
  select w.id, g.generation * 1048576 + 1 as first_epoch
  from outlast_worker w
  left join outlast_generation g on g.node = 'this database'
    and g.shown = (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint::text
  where w.id = $1 and w.state = 'open' for key share of w
)
insert into outlast_task (id, name, queue, priority, payload_version, body, options, digest, eta, expires_at,
  state, epoch, run, owner, crash_budget, history)
select m.id, m.name, m.queue, m.priority, m.version, m.body, m.options, m.digest, to_timestamp(m.eta_ms / 1000.0),
  to_timestamp(m.expires_ms / 1000.0), 'running', me.first_epoch, $2, me.id,
  coalesce(($3::jsonb ->> m.name)::int, ($3::jsonb ->> '*')::int), outlast_line('begun', me.first_epoch, $1, null)
from me, unnest($4::text[], $5::text[], $6::text[], $7::int[], $8::int[], $9::bytea[], $10::bytea[], $11::text[], $12::bigint[], $13::bigint[])
  as m(id, name, queue, priority, version, body, options, digest, eta_ms, expires_ms)
where me.first_epoch is not null and (m.expires_ms is null or to_timestamp(m.expires_ms / 1000.0) > clock_timestamp())
  and (m.eta_ms is null or to_timestamp(m.eta_ms / 1000.0) <= clock_timestamp())
-- In one order, to avoid deadlocks between two workers that were given the same copies.
order by m.id
on conflict (id) do nothing
returning id, epoch::text as epoch
