-- The task names whose rows and dead letters failed most often.
-- params: limit int
select name, sum(retries)::text as failures from (
  select task_name as name, retries from outlast_outbox where retries > 0
  union all
  select task_name, retries from outlast_dead_letter
) f group by name order by sum(retries) desc, name collate "C" limit $1
