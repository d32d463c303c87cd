-- The digests of the tasks with these ids, as committed by now: a conflicting row may be newer than this transaction.
-- params: task_ids text list
select task_id as id, digest from outlast_outbox where task_id in ($1) order by task_id limit 1000000 lock in share mode
