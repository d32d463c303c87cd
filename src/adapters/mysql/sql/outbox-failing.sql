-- The task names whose rows and dead letters failed most often. An index shows which rows failed; at most ten thousand of
-- them are read.
-- params: limit int
select f.name, sum(f.retries) as failures from (
  select task_name as name, retries from outlast_dead_letter
  union all
  select w.task_name, w.retries from (
    select task_name, retries from outlast_outbox force index (outlast_outbox_due)
    where state in ('pending', 'claimed') and retries > 0 limit 10000) w
) f group by f.name order by sum(f.retries) desc, f.name limit $1
