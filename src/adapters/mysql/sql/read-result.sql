-- Where a task is that the ledger does not know: dead on the relay, or still in the outbox.
-- params: id text
select 'dead' as state, d.failure_reason, d.task_id as id from outlast_dead_letter d where d.task_id = $1
union all
select 'pending', null, o.task_id from outlast_outbox o where o.task_id = $1
limit 1
