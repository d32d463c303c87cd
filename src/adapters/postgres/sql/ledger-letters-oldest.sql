-- Dead tasks, oldest death first, after a position. Ids are compared byte by byte, as every store does.
-- params: dead_at text, id text, name_like text, limit int
select id, name, queue, reason, error, version,
  to_char(ended_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as dead_at,
  to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created,
  case when octet_length(options) <= 65536 then options else '' end as options
from outlast_task
where state = 'dead' and ($1::text is null or (ended_at, id collate "C") > ($1::text::timestamptz, $2::text))
  and ($3::text is null or name like $3::text escape E'\\')
order by ended_at, id collate "C" limit $4
