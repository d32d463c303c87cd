-- What these tasks waited for is there: the waiting ones are due since they were sent (or since their eta), so that they stand
-- before later tasks again. Also those whose own delay is over: they stand behind all that came meanwhile. All others are left
-- alone. Returns where they stand: see `due-floors.ts`.
-- Locked in the order of their ids, to avoid deadlocks between two callers that wake the same tasks.
-- params: ids text[]
with sleeping as (
  select id from outlast_task
  where id = any($1::text[]) and state in ('waiting', 'refused') and due > least(clock_timestamp(), greatest(created_at, eta))
  order by id for update
), woken as (
  update outlast_task t set due = least(clock_timestamp(), greatest(t.created_at, t.eta)) from sleeping s where t.id = s.id
  returning t.queue, t.priority, t.due
), note as (select pg_notify('outlast_task', '') from (select 1 from woken limit 1) w)
select w.queue, w.priority, (extract(epoch from w.due) * 1000)::bigint::text as due_ms, (select count(*) from note)::text as notified
from woken w
