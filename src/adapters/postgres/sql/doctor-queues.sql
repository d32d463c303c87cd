-- Queues in which tasks have been due for longer than $1 milliseconds, and from which no living worker takes.
-- params: late_ms bigint
select t.queue, count(*)::text as waiting, exists (select 1 from outlast_queue p where p.name = t.queue) as paused
from outlast_task t
where t.state = 'waiting' and t.due < clock_timestamp() - $1::bigint * interval '1 millisecond'
  and not exists (
    select 1 from outlast_worker w where w.state = 'open' and w.deadline >= clock_timestamp() and t.queue = any(w.queues)
  )
group by t.queue order by t.queue collate "C"
