-- How many dead letters of the relay a purge would delete, by task.
-- params: dead_ms bigint, created_ms bigint, name_like text
select task_name as name, count(*)::text as count from outlast_dead_letter
where ($1::bigint is null or dead_at < statement_timestamp() - $1::bigint * interval '1 millisecond')
  and ($2::bigint is null or created_at < statement_timestamp() - $2::bigint * interval '1 millisecond')
  and ($3::text is null or task_name like $3::text escape E'\\')
group by task_name order by task_name collate "C"
