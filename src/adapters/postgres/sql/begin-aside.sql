-- Hands out up to $4 tasks that other workers set aside and that this worker can run ($6, $7: names and highest versions), of
-- each name the longest due; at most $9 suspects among them, which block no other task. Separate from `begin-due`, because
-- there are seldom any. As there, the own worker row is locked and the generation compared. A repeat with the same run finds
-- there what it was given here. No more than $8 bytes at once, but at least one task, as there.
-- params: worker text, run text, queues text[], limit int, budgets text, names text[], versions int[], most_bytes float8, suspects int
with me as materialized (
  select w.id, g.generation * 1048576 + 1 as first_epoch
  from outlast_worker w
  join outlast_generation g on g.node = 'this database'
    and g.shown = (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint::text
  where w.id = $1 and w.state = 'open' for key share of w
), suspected as materialized (
  select t.id, t.late
  from unnest($3::text[]) with ordinality as q(name, place)
  cross join unnest($6::text[], $7::int[]) as n(name, version)
  cross join lateral (
    select t.id, coalesce(t.expires_at <= clock_timestamp(), false) as late
    from outlast_task t
    where t.state = 'refused' and t.suspect and t.queue = q.name and t.name = n.name and t.payload_version <= n.version
      and t.due <= statement_timestamp()
    order by t.due, t.seq limit least($4::int, $9::int) for update skip locked
  ) t
  where exists (select 1 from me)
  limit least($4::int, $9::int)
), picked as materialized (
  select t.id, t.late, row_number() over () as place, sum(t.bytes) over (rows unbounded preceding) as bytes
  from unnest($3::text[]) with ordinality as q(name, place)
  cross join unnest($6::text[], $7::int[]) as n(name, version)
  cross join lateral (
    select t.id, coalesce(t.expires_at <= clock_timestamp(), false) as late,
      octet_length(t.body)::float8 + coalesce(octet_length(t.checkpoint), 0) as bytes
    from outlast_task t
    where t.state = 'refused' and not t.suspect and t.queue = q.name and t.name = n.name and t.payload_version <= n.version
      and t.due <= statement_timestamp()
    order by t.due, t.seq limit $4 for update skip locked
  ) t
  where exists (select 1 from me)
  limit $4::int - (select count(*) from suspected)
), taken as (
  select id, late from suspected union all select id, late from picked where place = 1 or bytes <= $8::float8
), moved as (
  update outlast_task t set
    state = case when p.late then 'cancelled' else 'running' end,
    epoch = case when p.late then t.epoch else greatest(t.epoch + 9214364837600034816 - 9214364837600034815, me.first_epoch) end,
    run = case when p.late then t.run else $2 end,
    owner = case when p.late then null else $1 end,
    crash_budget = coalesce(($5::jsonb ->> t.name)::int, ($5::jsonb ->> '*')::int),
    ending = case when p.late then 'expired' end,
    ended_at = case when p.late then clock_timestamp() end,
    keep_until = case when p.late then clock_timestamp() + interval '1 day' end,
    refused_at = null, refused_by = null,
    history = outlast_history(t.history, case when p.late then outlast_line('expired', t.epoch, null, null)
      else outlast_line('begun', greatest(t.epoch + 1, me.first_epoch), $1, null) end)
  from taken p, me
  where t.id = p.id
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
select t.state, t.id, t.name, t.queue, t.priority, t.payload_version, t.body, t.options, t.digest,
  case when isfinite(t.eta) then (extract(epoch from t.eta) * 1000)::bigint::text end as eta_ms, case when isfinite(t.expires_at) then (extract(epoch from t.expires_at) * 1000)::bigint::text end as expires_ms,
  t.epoch::text as epoch, t.run, t.failures, t.crashes, t.suspect, t.checkpoint, t.checkpoint_seq::text as checkpoint_seq
from moved t
