-- How many dead letters of each task a purge would delete.
-- params: dead_ms bigint, created_ms bigint, name_pattern text
select task_name as name, count(*) as count from outlast_dead_letter
where dead_at <= utc_timestamp(6) - interval $1 * 1000 microsecond
  and created_at <= utc_timestamp(6) - interval $2 * 1000 microsecond and task_name like $3 escape '!'
group by task_name order by task_name
