-- The digest of the task with this id; the conflicting row may have been moved on since.
-- params: id text
select digest from outlast_outbox where task_id = $1::text
union all
select digest from outlast_task where id = $1::text
limit 1
