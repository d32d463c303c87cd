-- The task names with most failures on record, dead letters of the relay included.
-- params: limit int
select name, sum(failures)::text as failures from (
  select name, failures + crashes as failures from outlast_task where state in ('waiting', 'running', 'dead') and failures + crashes > 0
  union all
  select name, 1 from outlast_task where state = 'dead' and failures + crashes = 0
  union all
  select task_name, retries from outlast_dead_letter
) f group by name order by sum(failures) desc, name limit $1
