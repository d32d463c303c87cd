-- Rows that could not be published, newest death first, after a position. Ids are compared byte by byte, as every store does.
-- params: dead_at text, id text, name_like text, limit int
select task_id as id, task_name as name, queue, failure_reason as error, version,
  to_char(dead_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as dead_at,
  to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created, ordering_key, options
from outlast_dead_letter
where ($1::text is null or (dead_at, task_id collate "C") < ($1::text::timestamptz, $2::text))
  and ($3::text is null or task_name like $3::text escape E'\\')
order by outlast_dead_letter.dead_at desc, task_id collate "C" desc limit $4
