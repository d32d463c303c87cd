-- What waits and runs, by queue.
-- params: none
select queue, sum(waiting)::text as waiting, sum(running)::text as running from (
  select queue, count(*) as waiting, 0 as running from outlast_task where state = 'waiting' and not suspect group by queue
  union all
  select queue, count(*), 0 from outlast_task where state = 'waiting' and suspect group by queue
  union all
  select queue, count(*), 0 from outlast_task where state = 'refused' group by queue
  union all
  select queue, 0, count(*) from outlast_task where state = 'running' group by queue
) q group by queue order by queue collate "C"
