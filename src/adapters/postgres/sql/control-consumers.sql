-- Living incarnations, with the queues they take from and how much they run.
-- params: none
select w.id, w.process, w.host, w.pid, array_to_json(w.queues)::text as queues, w.draining,
  (select count(*) from outlast_task t where t.owner = w.id and t.state = 'running')::text as running
from outlast_worker w
where w.state = 'open' and w.deadline >= clock_timestamp()
order by w.id collate "C"
