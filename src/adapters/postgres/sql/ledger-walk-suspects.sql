-- A slice of the list: tasks that wait after crashes, in the order of their index. The history is not needed.
-- params: queue text, priority int, due text, seq text, limit int
select id, name, queue, case state when 'refused' then 'waiting' else state end as state, epoch::text as epoch, failures, crashes, owner, reason, error,
  to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created,
  to_char(due at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as due,
  to_char(ended_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as ended,
  case when octet_length(options) <= 65536 then options else '' end as options,
  priority, seq::text as seq
from outlast_task
where state = 'waiting' and suspect
  and (queue, priority, due, seq) > ($1::text, $2::smallint, $3::text::timestamptz, $4::text::bigint)
order by queue, priority, outlast_task.due, outlast_task.seq limit $5
