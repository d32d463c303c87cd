-- Takes custody of messages without a record (those before their eta as waiting ones), wakes records that are waiting and
-- due, and returns the answer for each message, in their order. The own worker row is locked, as in `begin-due`; without it
-- nothing happens, which `open` shows; nor on a server without a settled generation, which `settled` shows. An answer is
-- null if another session has inserted the record since this statement began: `begin-answers` sees it.
-- params: worker text, run text, budgets text, suspects int, ids text[], names text[], queues text[], priorities int[], versions int[], bodies bytea[], options bytea[], digests text[], etas bigint[], expires bigint[]
with me as materialized (
  select w.id, g.generation * 1048576 + 1 as first_epoch
  from outlast_worker w
  left join outlast_generation g on g.node = 'this database'
    and g.shown = (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint::text
  where w.id = $1 and w.state = 'open' for key share of w
), given as (
  select * from unnest($5::text[], $6::text[], $7::text[], $8::int[], $9::int[], $10::bytea[], $11::bytea[], $12::text[], $13::bigint[], $14::bigint[])
    with ordinality as m(id, name, queue, priority, version, body, options, digest, eta_ms, expires_ms, place)
), msg as materialized (
  select distinct on (m.id) m.*, to_timestamp(m.eta_ms / 1000.0) as eta, to_timestamp(m.expires_ms / 1000.0) as expires_at,
    coalesce(to_timestamp(m.expires_ms / 1000.0) <= clock_timestamp(), false) as late,
    coalesce(to_timestamp(m.eta_ms / 1000.0) > clock_timestamp(), false) as early,
    coalesce(($3::jsonb ->> m.name)::int, ($3::jsonb ->> '*')::int) as budget
  from given m
  where exists (select 1 from me where first_epoch is not null)
  order by m.id, m.place
), suspected as (
  -- No two suspects run at the same time: the excess stays waiting.
  select m.id, row_number() over (order by m.place) as nth
  from msg m join outlast_task t on t.id = m.id where t.state = 'waiting' and t.suspect
), put as (
  insert into outlast_task (id, name, queue, priority, payload_version, body, options, digest, eta, expires_at,
    state, epoch, run, owner, crash_budget, due, ending, ended_at, keep_until, history)
  select id, name, queue, priority, version, body, options, digest, eta, expires_at,
    case when late then 'cancelled' when early then 'waiting' else 'running' end,
    case when late or early then 0 else first_epoch end, case when late or early then null else $2 end,
    case when late or early then null else $1 end, budget, case when early then eta else clock_timestamp() end,
    case when late then 'expired' end, case when late then clock_timestamp() end,
    case when late then clock_timestamp() + interval '1 day' end,
    case when late then outlast_line('expired', 0, null, null) when early then outlast_line('arrived', 0, null, null)
      else outlast_line('begun', first_epoch, $1, null) end
  from msg, (select first_epoch from me) me
  on conflict (id) do nothing
  returning id, name, queue, digest, state, epoch
), woken as (
  update outlast_task t set
    state = case when m.late then 'cancelled' else 'running' end,
    epoch = case when m.late then t.epoch else greatest(t.epoch + 1, me.first_epoch) end,
    run = case when m.late then t.run else $2 end,
    owner = case when m.late then null else $1 end,
    crash_budget = m.budget, refused_at = null, refused_by = null,
    ending = case when m.late then 'expired' end,
    ended_at = case when m.late then clock_timestamp() end,
    keep_until = case when m.late then clock_timestamp() + interval '1 day' end,
    history = outlast_history(t.history, case when m.late then outlast_line('expired', t.epoch, null, null)
      else outlast_line('begun', greatest(t.epoch + 1, me.first_epoch), $1, null) end)
  from msg m, me
  where t.id = m.id and t.state in ('waiting', 'refused') and t.digest = m.digest and (t.due <= clock_timestamp() or m.late)
    and (not t.suspect or m.late or exists (select 1 from suspected s where s.id = m.id and s.nth <= $4::int))
  returning t.*
), came as (
  -- Cancelled before it came: if it has follow-ups, its tombstone takes its bytes, once, and a trigger notifies them.
  update outlast_task t set name = m.name, queue = m.queue, priority = m.priority, payload_version = m.version, body = m.body,
    options = m.options, digest = m.digest
  from msg m
  where t.id = m.id and t.state = 'cancelled' and t.digest is null and outlast_follows(m.body, m.options)
), counted as (
  insert into outlast_tally (name, queue, figure, at, count)
  select m.name, m.queue, 'expired',
    case when o.name is null then '-infinity' else date_bin('1 minute', statement_timestamp(), 'epoch') end, count(*)
  from (select id, name, queue, state from put union all select id, name, queue, state from woken) m
  left join outlast_objective o on o.name = m.name
  where m.state = 'cancelled'
  group by 1, 2, 3, 4
), answered as materialized (
  select m.place, t.name, t.queue,
    case
      when p.digest <> m.digest then 'conflict'
      when coalesce(p.state, w.state) = 'running' then 'begun'
      when coalesce(p.state, w.state) = 'cancelled' then 'expired'
      when p.state = 'waiting' then 'held'
      when t.digest is not null and t.digest <> m.digest then 'conflict'
      when t.state = 'running' and t.owner = $1 and t.run = $2 then 'begun'
      when t.state = 'done' then 'done'
      when t.ending = 'expired' then 'expired'
      when t.id is not null then 'held'
    end as answer,
    coalesce(w.epoch, p.epoch, t.epoch, 0)::text as epoch, coalesce(w.failures, t.failures, 0) as failures,
    coalesce(w.crashes, t.crashes, 0) as crashes, coalesce(w.suspect, t.suspect, false) as suspect,
    case when w.id is null then t.checkpoint else w.checkpoint end as checkpoint,
    coalesce(w.checkpoint_seq, t.checkpoint_seq, 0)::text as checkpoint_seq
  from given m
  left join put p on p.id = m.id
  left join woken w on w.id = m.id and w.digest = m.digest
  left join outlast_task t on t.id = m.id
), copies as (
  insert into outlast_tally (name, queue, figure, at, count)
  select name, queue, 'duplicates', '-infinity', count(*) from answered where answer in ('held', 'done') and name is not null group by name, queue
)
select (select count(*) from me)::text as open, (select count(first_epoch) from me)::text as settled, place::text as place, answer,
  epoch, failures, crashes, suspect, checkpoint, checkpoint_seq
from answered order by place
