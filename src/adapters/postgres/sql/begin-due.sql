-- Hands out up to $4 waiting tasks that are due. The own worker row is locked FOR KEY SHARE: otherwise a begin and
-- a condemn pass each other, and a task runs under an incarnation that no reaper watches.
-- A repeat with the same run finds what it was given before, and is given nothing else; messages begun under the same
-- run ($6) are not among it. A first try ($10) does not look for that: while a foreign transaction holds an old snapshot, every
-- task that this worker has ever run would be walked over.
-- Suspects have a statement of their own: `suspects` tells whether there are any, see `begin-suspects`.
-- Tasks that this worker cannot run ($7: names with the highest versions; null: it runs everything) are set aside, so that
-- they leave the head of the queue: a filter would walk over them with every call. `aside` tells whether there are any: see
-- `begin-aside`. Due is compared with statement_timestamp(): clock_timestamp() is volatile and no condition for an index.
-- Unless a generation was settled for this very server nothing begins: its data may be older than what was handed out.
-- Queues come in the order in which they are given, in each of them the most urgent first. The look-ups are listed before
-- the first of them is made: joined in one go, their order would be the planner's.
-- Ten priorities are ten index look-ups per queue, so that tasks waiting for a later time are never walked over. A look-up
-- begins at its floor ($9, ten for each queue; null: at the beginning), see `due-floors.ts`.
-- Rows are found by an array of ids: a join may read the whole table, whatever index there is.
-- No more than $8 bytes are handed out at once, but at least one task; the tasks behind stay as they are. Lengths are known
-- without reading the values.
-- An epoch that no number of JavaScript can show overflows on purpose: see `begin-heads`.
-- Columns are named, and `again` is joined to nothing: planning this statement takes longer than running it.
-- params: worker text, run text, queues text[], limit int, budgets text, others text[], runnable text, most_bytes float8, floors float8[], is_first boolean
with me as materialized (
  select w.id, (
      select g.generation * 1048576 + 1 from outlast_generation g
      where g.node = 'this database' and g.shown = (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint::text
    ) as first_epoch
  from outlast_worker w where w.id = $1 and w.state = 'open' for key share
), again as materialized (
  select t.state, t.id, t.name, t.queue, t.priority, t.payload_version, t.body, t.options, t.digest,
    t.eta, t.expires_at, t.epoch, t.run, t.failures, t.crashes, t.suspect, t.checkpoint, t.checkpoint_seq, t.due
  from outlast_task t where not $10::boolean and t.owner = $1 and t.run = $2 and t.state = 'running' and t.id <> all($6::text[])
), look as materialized (
  select q.name, p.priority, coalesce(to_timestamp(($9::float8[])[(q.place - 1) * 10 + p.priority + 1] / 1000), '-infinity') as floor
  from unnest($3::text[]) with ordinality as q(name, place)
  cross join generate_series(9, 0, -1) as p(priority)
  where exists (select 1 from me where first_epoch is not null) and not exists (select 1 from again)
  order by q.place, p.priority desc
), due as materialized (
  select t.id, t.late, $7::jsonb is null or coalesce(($7::jsonb ->> t.name)::int >= t.payload_version, false) as ours,
    row_number() over () as place, sum(t.bytes) over (rows unbounded preceding) as bytes
  from look l
  cross join lateral (
    select t.id, t.name, t.payload_version, coalesce(t.expires_at <= clock_timestamp(), false) as late,
      octet_length(t.body)::float8 + coalesce(octet_length(t.checkpoint), 0) as bytes
    from outlast_task t
    where t.state = 'waiting' and not t.suspect and t.queue = l.name and t.priority = l.priority and t.due <= statement_timestamp() and t.due >= l.floor
    order by t.due, t.seq limit $4 for update skip locked
  ) t
  limit $4
), picked as materialized (
  select id, case when late then 'cancelled' when ours then 'running' else 'refused' end as next, place from due where place = 1 or bytes <= $8::float8
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
  returning t.state, t.id, t.name, t.queue, t.priority, t.payload_version, t.body, t.options, t.digest,
    t.eta, t.expires_at, t.epoch, t.run, t.failures, t.crashes, t.suspect, t.checkpoint, t.checkpoint_seq, t.due, p.place
), given as (
  select m.* from moved m
  union all
  select a.*, 0 from again a
)
select (select count(*) from me)::text as open, (select count(first_epoch) from me)::text as settled,
  exists (select 1 from outlast_task r where r.state = 'refused' and r.queue = any($3::text[])) as aside,
  exists (select 1 from outlast_task r where r.state = 'waiting' and r.suspect and r.queue = any($3::text[])) as suspects,
  g.state, g.id, g.name, g.queue, g.priority, g.payload_version, case when g.state = 'running' then g.body end as body, g.options, g.digest,
  case when isfinite(g.eta) then (extract(epoch from g.eta) * 1000)::bigint::text end as eta_ms, case when isfinite(g.expires_at) then (extract(epoch from g.expires_at) * 1000)::bigint::text end as expires_ms,
  g.epoch::text as epoch, g.run, g.failures, g.crashes, g.suspect, g.checkpoint, g.checkpoint_seq::text as checkpoint_seq,
  case when isfinite(g.due) then (extract(epoch from g.due) * 1000)::bigint::text end as due_ms
from (select 1) one left join given g on true
order by g.place
