-- All that is known of one task, with its bytes and its result.
-- params: id text
select id, name, queue, case state when 'refused' then 'waiting' else state end as state, epoch::text as epoch, failures, crashes, owner, reason, error,
  to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created,
  to_char(due at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as due,
  to_char(ended_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as ended,
  options, body, history, result, ending, suspect, refused_by, state = 'refused' as is_refused,
  (extract(epoch from clock_timestamp()) * 1000)::bigint::text as now_ms
from outlast_task where id = $1
