-- The task names with most failures and crashes on record. A death without any counts as one.
-- params: limit int
select name, sum(count)::text as failures from (
  select name, failures + crashes as count from outlast_task
  where failures + crashes > 0 and state in ('waiting', 'running', 'dead')
  union all
  -- Counted separately: the index of failures does not have these, and that of refused tasks does.
  select name, failures + crashes from outlast_task where state = 'refused' and failures + crashes > 0
  union all
  select name, 1 from outlast_task where state = 'dead' and failures + crashes = 0
) f group by name order by sum(count) desc, name collate "C" limit $1
