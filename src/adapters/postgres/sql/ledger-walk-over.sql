-- A slice of the list: tasks that are done or cancelled, those first that are kept for longest.
-- params: keep_until text, id text, limit int
select id, name, queue, case state when 'refused' then 'waiting' else state end as state, epoch::text as epoch, failures, crashes, owner, reason, error,
  to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created,
  to_char(due at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as due,
  to_char(ended_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as ended,
  case when octet_length(options) <= 65536 then options else '' end as options,
  to_char(keep_until at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as kept
from outlast_task
where keep_until is not null and keep_until <= $1::text::timestamptz and (keep_until, id collate "C") < ($1::text::timestamptz, $2::text)
order by keep_until desc, id collate "C" desc limit $3
