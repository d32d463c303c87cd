-- The bytes that ids stand for, as committed by now: whoever was in the way may be younger than this transaction.
-- params: task_ids text list
select task_id as id, digest from outlast_outbox where task_id in ($1) order by task_id lock in share mode
