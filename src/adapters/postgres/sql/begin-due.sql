-- Hands out up to $4 waiting tasks that are due. The own worker row is locked FOR KEY SHARE: without it a begin and
-- a condemn pass each other, and a task runs under an incarnation nobody watches.
-- A repeat with the same run finds what it was given before, and is given nothing else; messages begun under the same
-- run ($7) are not among it.
-- Suspects are looked for apart: at most $5 of them, and they never stand in the way of the others.
-- Due is compared with statement_timestamp(): clock_timestamp() is volatile and no condition for an index.
-- Ten priorities are ten index look-ups per queue, so that tasks waiting for a later time are never walked over.
-- params: worker text, run text, queues text[], limit int, suspects int, budgets text, others text[]
with me as materialized (
  select id from outlast_worker where id = $1 and state = 'open' for key share
), again as materialized (
  select t.id from outlast_task t where t.owner = $1 and t.run = $2 and t.state = 'running' and t.id <> all($7::text[])
), suspected as materialized (
  select t.id, t.late
  from unnest($3::text[]) with ordinality as q(name, place)
  cross join generate_series(9, 0, -1) as p(priority)
  cross join lateral (
    select t.id, coalesce(t.expires_at <= clock_timestamp(), false) as late
    from outlast_task t
    where t.state = 'waiting' and t.suspect and t.queue = q.name and t.priority = p.priority and t.due <= statement_timestamp()
    order by t.due, t.seq limit least($4::int, $5::int) for update skip locked
  ) t
  where exists (select 1 from me) and not exists (select 1 from again)
  limit least($4::int, $5::int)
), due as materialized (
  select t.id, t.late, row_number() over () as place
  from unnest($3::text[]) with ordinality as q(name, place)
  cross join generate_series(9, 0, -1) as p(priority)
  cross join lateral (
    select t.id, coalesce(t.expires_at <= clock_timestamp(), false) as late
    from outlast_task t
    where t.state = 'waiting' and not t.suspect and t.queue = q.name and t.priority = p.priority and t.due <= statement_timestamp()
    order by t.due, t.seq limit $4 for update skip locked
  ) t
  where exists (select 1 from me) and not exists (select 1 from again)
  limit $4::int - (select count(*) from suspected)
), picked as (
  select id, late, 0 as place from suspected
  union all
  select id, late, place from due
), moved as (
  update outlast_task t set
    state = case when p.late then 'cancelled' else 'running' end,
    epoch = case when p.late then t.epoch else t.epoch + 1 end,
    run = case when p.late then t.run else $2 end,
    owner = case when p.late then null else $1 end,
    crash_budget = coalesce(($6::jsonb ->> t.name)::int, ($6::jsonb ->> '*')::int),
    ending = case when p.late then 'expired' end,
    ended_at = case when p.late then clock_timestamp() end,
    keep_until = case when p.late then clock_timestamp() + interval '1 day' end,
    history = outlast_history(t.history, case when p.late then outlast_line('expired', t.epoch, null, null)
      else outlast_line('begun', t.epoch + 1, $1, null) end)
  from picked p
  where t.id = p.id
  returning t.*, p.place
), given as (
  select m.*, m.state = 'cancelled' as late from moved m
  union all
  select t.*, 0, false from outlast_task t join again a on a.id = t.id
)
select (select count(*) from me)::text as open, g.late, g.id, g.name, g.queue, g.priority, g.payload_version, g.body, g.options, g.digest,
  (extract(epoch from g.eta) * 1000)::bigint::text as eta_ms, (extract(epoch from g.expires_at) * 1000)::bigint::text as expires_ms,
  g.epoch::text as epoch, g.run, g.failures, g.crashes, g.suspect, g.checkpoint, g.checkpoint_seq::text as checkpoint_seq
from (select 1) one left join given g on true
order by g.place
