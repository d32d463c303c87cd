-- Extends the one deadline of a process, and lists what it runs according to the ledger if $2 asks for that: see
-- `run-list-pace.ts`. No row: the incarnation is closed.
-- params: worker text, lists_runs boolean
with beat as (
  update outlast_worker set deadline = clock_timestamp() + lease_ms * interval '1 millisecond'
  where id = $1 and state = 'open' returning id
)
select t.id, t.epoch::text as epoch, t.run
from beat left join outlast_task t on $2::boolean and t.owner = beat.id and t.state = 'running'
