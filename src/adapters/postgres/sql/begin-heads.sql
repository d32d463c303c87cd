-- The tasks that `begin-due` and `begin-aside` may have met, when one of them has made the statement fail: only their ids
-- are read.
-- params: queues text[], limit int
select t.id
from unnest($1::text[]) as q(name)
cross join generate_series(9, 0, -1) as p(priority)
cross join lateral (
  (select t.id from outlast_task t
    where t.state = 'waiting' and not t.suspect and t.queue = q.name and t.priority = p.priority and t.due <= statement_timestamp()
    order by t.due, t.seq limit $2)
  union all
  (select t.id from outlast_task t
    where t.state = 'waiting' and t.suspect and t.queue = q.name and t.priority = p.priority and t.due <= statement_timestamp()
    order by t.due, t.seq limit $2)
) t
union all
(select t.id from outlast_task t where t.state = 'refused' and t.queue = any($1::text[]) and t.due <= statement_timestamp() limit $2)
