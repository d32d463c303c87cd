-- The tasks whose rows failed most often. Of rows that wait for their next attempt at most ten thousand are looked at.
-- params: limit int
select name, sum(failures) as failures from (
  select task_name as name, retries as failures from outlast_dead_letter
  union all
  select w.task_name, w.retries from (
    select task_name, retries from outlast_outbox force index (outlast_outbox_due)
    where state = 'pending' and retries > 0 limit 10000) w
) f group by name order by failures desc, name limit $1
