-- The newest tasks of the ledger.
-- params: limit int
select id, name, queue, case state when 'refused' then 'waiting' else state end as state, epoch::text as epoch, failures, crashes,
  to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created, history
from outlast_task order by created_at desc limit $1
