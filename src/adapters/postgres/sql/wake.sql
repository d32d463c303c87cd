-- What these tasks waited for is there: the waiting ones are due now, all others are left alone.
-- Locked in the order of their ids, to avoid deadlocks between two callers that wake the same tasks.
-- params: ids text[]
with sleeping as (
  select id from outlast_task
  where id = any($1::text[]) and state in ('waiting', 'refused') and due > clock_timestamp()
  order by id for update
), woken as (
  update outlast_task t set due = clock_timestamp() from sleeping s where t.id = s.id returning t.id
)
select pg_notify('outlast_task', '') from (select 1 from woken limit 1) w
