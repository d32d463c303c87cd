-- How a task ended, or where it is. A step that is never sent has ended with the task before it, until that is revived.
-- params: id text
select case t.state when 'refused' then 'waiting' else t.state end as state, t.ending, t.result, t.error, t.reason, null as of_id from outlast_task t where t.id = $1
union all
select 'dead', 'dead', null, convert_to('{"type":"relay","message":' || to_json(d.failure_reason)::text || ',"traceback":""}', 'UTF8'), 'relay', null
from outlast_dead_letter d where d.task_id = $1
union all
select 'pending', null, null, null, null, null from outlast_outbox o where o.task_id = $1
union all
select case n.ending when 'dead' then 'dead' when 'discarded' then 'done' else 'cancelled' end, n.ending, null, n.error, null, n.of_id
from outlast_never_sent n
where n.task_id = $1 and not exists (
  select 1 from outlast_task b where b.id = n.of_id and (b.ending is null or b.ending = 'done'))
limit 1
