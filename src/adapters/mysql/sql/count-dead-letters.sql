-- How many dead letters a purge would delete, by task.
-- params: dead_ms bigint, created_ms bigint, name_like text
select task_name as name, count(*) as count from outlast_dead_letter
where ($1 is null or dead_at < utc_timestamp(6) - interval $1 * 1000 microsecond)
  and ($2 is null or created_at < utc_timestamp(6) - interval $2 * 1000 microsecond)
  and ($3 is null or task_name like $3)
group by task_name order by task_name
