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
-- Rows are found by an array of ids, and joined to nothing: a join may read the whole table, whatever index there is. Those that
-- are not begun (`turned`) have an update of their own, which nearly every call has no rows for.
-- No more than $8 bytes are handed out at once, but at least one task; the tasks behind stay as they are. Lengths are known
-- without reading the values.
-- An epoch that no number of JavaScript can show overflows on purpose: see `begin-heads`.
-- Columns are named, and `again` is joined to nothing: planning this statement takes longer than running it.
-- params: worker text, run text, queues text[], limit int, budgets text, others text[], runnable text, most_bytes float8, floors float8[], is_first boolean
/* kept plan */
with me as materialized (
  select w.id, (
      select g.generation * 1048576 + 1 from outlast_generation g
      where g.node = 'this database' and g.shown = (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint::text
    ) as first_epoch
  from outlast_worker w where w.id = $1 and w.state = 'open' for key share
), again as materialized (
  select t.state, t.id, t.name, t.queue, t.priority, t.payload_version, t.body, t.options, t.digest,
    t.eta, t.expires_at, t.epoch, t.run, t.failures, t.crashes, t.suspect, t.checkpoint, t.checkpoint_seq, t.due, t.seq
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
  select array_agg(id) filter (where ours and not late) as ready, array_agg(id) filter (where late) as late,
    array_agg(id) filter (where late or not ours) as turned
  from due where place = 1 or bytes <= $8::float8
), moved as (
  update outlast_task t set
    state = 'running', run = $2, owner = $1,
    epoch = greatest(t.epoch + 9214364837600034816 - 9214364837600034815, (select first_epoch from me)),
    crash_budget = coalesce(($5::jsonb ->> t.name)::int, ($5::jsonb ->> '*')::int),
    ending = null, ended_at = null, keep_until = null, refused_at = null, refused_by = null,
    history = outlast_history(t.history, outlast_line('begun', greatest(t.epoch + 1, (select first_epoch from me)), $1, null))
  where t.id = any((select ready from picked)::text[])
  returning t.state, t.id, t.name, t.queue, t.priority, t.payload_version, t.body, t.options, t.digest,
    t.eta, t.expires_at, t.epoch, t.run, t.failures, t.crashes, t.suspect, t.checkpoint, t.checkpoint_seq, t.due, t.seq
), turned as (
  update outlast_task t set
    owner = null,
    (state, ending, ended_at, keep_until, refused_at, refused_by, history) = (
      select case when x.is_late then 'cancelled' else 'refused' end, case when x.is_late then 'expired' end,
        case when x.is_late then clock_timestamp() end, case when x.is_late then clock_timestamp() + interval '1 day' end,
        case when not x.is_late then clock_timestamp() end, case when not x.is_late then $1 end,
        outlast_history(t.history, case when x.is_late then outlast_line('expired', t.epoch, null, null) else outlast_line('refused', t.epoch, $1, null) end)
      from (select t.id = any(p.late) is true as is_late from picked p) x)
  where t.id = any((select turned from picked)::text[])
  returning t.state, t.id, t.name, t.queue, t.priority, t.payload_version, t.body, t.options, t.digest,
    t.eta, t.expires_at, t.epoch, t.run, t.failures, t.crashes, t.suspect, t.checkpoint, t.checkpoint_seq, t.due, t.seq
), given as (
  select m.* from moved m
  union all
  select u.* from turned u
  union all
  select a.* from again a
), counted as (
  insert into outlast_tally (name, queue, figure, at, count)
  select m.name, m.queue, 'expired',
    case when o.name is null then '-infinity' else date_bin('1 minute', statement_timestamp(), 'epoch') end, count(*)
  from turned m
  left join outlast_objective o on o.name = m.name
  where m.state = 'cancelled'
  group by 1, 2, 3, 4
)
select (select count(*) from me)::text as open, (select count(first_epoch) from me)::text as settled,
  exists (select 1 from outlast_task r where r.state = 'refused' and r.queue = any($3::text[])) as aside,
  exists (select 1 from outlast_task r where r.state = 'waiting' and r.suspect and r.queue = any($3::text[])) as suspects,
  g.state, g.id, g.name, g.queue, g.priority, g.payload_version, case when g.state = 'running' then g.body end as body, g.options, g.digest,
  case when isfinite(g.eta) then (extract(epoch from g.eta) * 1000)::bigint::text end as eta_ms, case when isfinite(g.expires_at) then (extract(epoch from g.expires_at) * 1000)::bigint::text end as expires_ms,
  g.epoch::text as epoch, g.run, g.failures, g.crashes, g.suspect, g.checkpoint, g.checkpoint_seq::text as checkpoint_seq,
  case when isfinite(g.due) then (extract(epoch from g.due) * 1000)::bigint::text end as due_ms
from (select 1) one left join given g on true
order by array_position($3::text[], g.queue), g.priority desc, g.due, g.seq
