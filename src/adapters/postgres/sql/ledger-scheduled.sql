-- How many tasks of these queues wait for their first moment: sent for a later time, and never begun.
-- params: queues text[]
select count(*)::text as scheduled
from unnest($1::text[]) as q(name)
cross join generate_series(0, 9) as p(priority)
join lateral (
  select 1 from outlast_task t
  where t.state = 'waiting' and not t.suspect and t.queue = q.name and t.priority = p.priority and t.due > statement_timestamp() and t.epoch = 0
) t on true
