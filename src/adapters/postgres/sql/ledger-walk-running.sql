-- A slice of the list: tasks that run, by id. There are no more of them than workers have slots. The end of the history says
-- when the run began.
-- params: id text, limit int
select id, name, queue, case state when 'refused' then 'waiting' else state end as state, epoch::text as epoch, failures, crashes, owner, reason, error,
  to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created,
  to_char(due at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as due,
  to_char(ended_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as ended,
  case when octet_length(options) <= 65536 then options else '' end as options,
  substring(history from greatest(1, octet_length(history) - 4095)) as history
from outlast_task
where state = 'running' and id collate "C" > $1::text order by id collate "C" limit $2
