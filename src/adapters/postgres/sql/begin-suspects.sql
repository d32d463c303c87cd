-- Hands out up to $4 suspects that are due, and sets those aside that this worker cannot run: no other step counts how long they
-- wait. Separate from `begin-due`, because there are seldom any, and so that they never block other tasks. As there, the own
-- worker row is locked and the generation compared; a repeat with the same run finds there what it was given here.
-- params: worker text, run text, queues text[], limit int, budgets text, runnable text
with me as materialized (
  select w.id, g.generation * 1048576 + 1 as first_epoch
  from outlast_worker w
  join outlast_generation g on g.node = 'this database'
    and g.shown = (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint::text
  where w.id = $1 and w.state = 'open' for key share of w
), look as materialized (
  select q.name, p.priority
  from unnest($3::text[]) with ordinality as q(name, place)
  cross join generate_series(9, 0, -1) as p(priority)
  where exists (select 1 from me)
  order by q.place, p.priority desc
), ours as materialized (
  select t.id, t.late
  from look l
  cross join lateral (
    select t.id, coalesce(t.expires_at <= clock_timestamp(), false) as late
    from outlast_task t
    where t.state = 'waiting' and t.suspect and t.queue = l.name and t.priority = l.priority and t.due <= statement_timestamp()
      and ($6::jsonb is null or ($6::jsonb ->> t.name)::int >= t.payload_version)
    order by t.due, t.seq limit $4 for update skip locked
  ) t
  limit $4
), others as materialized (
  select t.id, t.late
  from look l
  cross join lateral (
    select t.id, coalesce(t.expires_at <= clock_timestamp(), false) as late
    from outlast_task t
    where $6::jsonb is not null and t.state = 'waiting' and t.suspect and t.queue = l.name and t.priority = l.priority and t.due <= statement_timestamp()
      and coalesce(($6::jsonb ->> t.name)::int < t.payload_version, true)
    order by t.due, t.seq limit 100 for update skip locked
  ) t
  limit 100
), picked as materialized (
  select id, case when late then 'cancelled' else 'running' end as next from ours
  union all
  select id, case when late then 'cancelled' else 'refused' end from others
), moved as (
  update outlast_task t set
    state = p.next,
    epoch = case when p.next = 'running' then greatest(t.epoch + 9214364837600034816 - 9214364837600034815, me.first_epoch) else t.epoch end,
    run = case when p.next = 'running' then $2 else t.run end,
    owner = case when p.next = 'running' then $1 end,
    crash_budget = case when p.next = 'running' then coalesce(($5::jsonb ->> t.name)::int, ($5::jsonb ->> '*')::int) else t.crash_budget end,
    ending = case when p.next = 'cancelled' then 'expired' end,
    ended_at = case when p.next = 'cancelled' then clock_timestamp() end,
    keep_until = case when p.next = 'cancelled' then clock_timestamp() + interval '1 day' end,
    refused_at = case when p.next = 'refused' then clock_timestamp() end,
    refused_by = case when p.next = 'refused' then $1 end,
    history = outlast_history(t.history, case p.next when 'cancelled' then outlast_line('expired', t.epoch, null, null)
      when 'refused' then outlast_line('refused', t.epoch, $1, null) else outlast_line('begun', greatest(t.epoch + 1, me.first_epoch), $1, null) end)
  from picked p, me
  where t.id = p.id and t.id = any(array(select i.id from picked i))
  returning t.*
), counted as (
  insert into outlast_tally (name, queue, figure, at, count)
  select m.name, m.queue, 'expired',
    case when o.name is null then '-infinity' else date_bin('1 minute', statement_timestamp(), 'epoch') end, count(*)
  from moved m
  left join outlast_objective o on o.name = m.name
  where m.state = 'cancelled'
  group by 1, 2, 3, 4
)
select t.state, t.id, t.name, t.queue, t.priority, t.payload_version, case when t.state = 'running' then t.body end as body, t.options, t.digest,
  case when isfinite(t.eta) then (extract(epoch from t.eta) * 1000)::bigint::text end as eta_ms, case when isfinite(t.expires_at) then (extract(epoch from t.expires_at) * 1000)::bigint::text end as expires_ms,
  t.epoch::text as epoch, t.run, t.failures, t.crashes, t.suspect, t.checkpoint, t.checkpoint_seq::text as checkpoint_seq
from moved t
