-- Sets aside up to $5 waiting tasks at the heads of the queues that a worker cannot run. `begin-due` does the same with
-- the ones it meets; this is for many at once, and wakes workers that may run them. The search takes no locks: tasks that
-- others begin meanwhile stay theirs.
-- params: worker text, queues text[], names text[], versions int[], limit int
with able as materialized (
  select name, version from unnest($3::text[], $4::int[]) as n(name, version)
), found as materialized (
  select t.id
  from unnest($2::text[]) as q(name)
  cross join generate_series(9, 0, -1) as p(priority)
  cross join lateral (
    select t.id, t.name, t.payload_version from outlast_task t
    where t.state = 'waiting' and not t.suspect and t.queue = q.name and t.priority = p.priority and t.due <= statement_timestamp()
    order by t.due, t.seq limit $5
  ) t
  where not exists (select 1 from able a where a.name = t.name and a.version >= t.payload_version)
  limit $5
), locked as (
  select t.id from outlast_task t join found f on f.id = t.id where t.state = 'waiting' for update of t skip locked
), moved as (
  update outlast_task t set state = 'refused', refused_at = clock_timestamp(), refused_by = $1,
    history = outlast_history(t.history, outlast_line('refused', t.epoch, $1, null))
  from locked l where t.id = l.id
  returning t.id
)
select count(*)::text as moved, pg_notify('outlast_task', '') from moved
