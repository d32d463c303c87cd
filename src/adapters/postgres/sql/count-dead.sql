-- How many dead tasks a purge would end, by task.
-- params: dead_ms bigint, created_ms bigint, name_like text
select name, count(*)::text as count from outlast_task
where state = 'dead'
  and ($1::bigint is null or ended_at < statement_timestamp() - $1::bigint * interval '1 millisecond')
  and ($2::bigint is null or created_at < statement_timestamp() - $2::bigint * interval '1 millisecond')
  and ($3::text is null or name like $3::text escape E'\\')
group by name order by name collate "C"
