-- How a task ended, or where it is.
-- params: id text
select case t.state when 'refused' then 'waiting' else t.state end as state, t.ending, t.result, t.error, t.reason from outlast_task t where t.id = $1
union all
select 'dead', 'dead', null, convert_to('{"type":"relay","message":' || to_json(d.failure_reason)::text || ',"traceback":""}', 'UTF8'), 'relay'
from outlast_dead_letter d where d.task_id = $1
union all
select 'pending', null, null, null, null from outlast_outbox o where o.task_id = $1
limit 1
