-- Takes custody of messages that no record knows, and wakes records that are waiting and due. The caller holds its
-- worker row and asks for the answers in the next statement of the same transaction.
-- params: worker text, run text, budgets text, suspects int, ids text[], names text[], queues text[], priorities int[], versions int[], bodies bytea[], options bytea[], digests text[], etas bigint[], expires bigint[]
with msg as (
  select distinct on (m.id) m.*, to_timestamp(m.eta_ms / 1000.0) as eta, to_timestamp(m.expires_ms / 1000.0) as expires_at,
    coalesce(to_timestamp(m.expires_ms / 1000.0) <= clock_timestamp(), false) as late,
    coalesce(($3::jsonb ->> m.name)::int, ($3::jsonb ->> '*')::int) as budget
  from unnest($5::text[], $6::text[], $7::text[], $8::int[], $9::int[], $10::bytea[], $11::bytea[], $12::text[], $13::bigint[], $14::bigint[])
    with ordinality as m(id, name, queue, priority, version, body, options, digest, eta_ms, expires_ms, place)
  order by m.id, m.place
), suspected as (
  -- Suspects run beside no other suspect: those too many stay waiting.
  select m.id, row_number() over (order by m.place) as nth
  from msg m join outlast_task t on t.id = m.id where t.state = 'waiting' and t.suspect
), put as (
  insert into outlast_task (id, name, queue, priority, payload_version, body, options, digest, eta, expires_at,
    state, epoch, run, owner, crash_budget, ending, ended_at, keep_until, history)
  select id, name, queue, priority, version, body, options, digest, eta, expires_at,
    case when late then 'cancelled' else 'running' end, case when late then 0 else 1 end, case when late then null else $2 end,
    case when late then null else $1 end, budget, case when late then 'expired' end, case when late then clock_timestamp() end,
    case when late then clock_timestamp() + interval '1 day' end,
    case when late then outlast_line('expired', 0, null, null) else outlast_line('begun', 1, $1, null) end
  from msg
  on conflict (id) do nothing
  returning id
)
update outlast_task t set
  state = case when m.late then 'cancelled' else 'running' end,
  epoch = case when m.late then t.epoch else t.epoch + 1 end,
  run = case when m.late then t.run else $2 end,
  owner = case when m.late then null else $1 end,
  crash_budget = m.budget,
  ending = case when m.late then 'expired' end,
  ended_at = case when m.late then clock_timestamp() end,
  keep_until = case when m.late then clock_timestamp() + interval '1 day' end,
  history = outlast_history(t.history, case when m.late then outlast_line('expired', t.epoch, null, null)
    else outlast_line('begun', t.epoch + 1, $1, null) end)
from msg m
where t.id = m.id and t.state = 'waiting' and t.digest = m.digest and (t.due <= clock_timestamp() or m.late)
  and (not t.suspect or m.late or exists (select 1 from suspected s where s.id = m.id and s.nth <= $4::int))
