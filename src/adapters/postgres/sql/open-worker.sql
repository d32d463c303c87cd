-- Opens an incarnation. A repeat after a lost reply finds its row. It also says what the tasks of its handlers promise, those
-- that promise nothing (any more) included, in one order for all workers.
-- params: worker text, process text, host text, pid int, lease_ms int, without text[], names text[], success numeric[], within_ms bigint[], latency numeric[]
with gone as (
  delete from outlast_objective where name = any($6::text[])
), said as (
  insert into outlast_objective as o (name, success, within_ms, latency)
  select * from unnest($7::text[], $8::numeric[], $9::bigint[], $10::numeric[]) as s(name, success, within_ms, latency) order by s.name
  on conflict (name) do update set success = excluded.success, within_ms = excluded.within_ms, latency = excluded.latency
    where (o.success, o.within_ms, o.latency) is distinct from (excluded.success, excluded.within_ms, excluded.latency)
)
insert into outlast_worker (id, process, host, pid, lease_ms, deadline)
values ($1, $2, $3, $4, $5::int, clock_timestamp() + $5::int * interval '1 millisecond')
on conflict (id) do nothing
