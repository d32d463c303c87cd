-- The newest tasks of the ledger.
-- params: limit int
select id, name, queue, state, epoch::text as epoch, failures, crashes, created_at, history
from outlast_task order by created_at desc limit $1
