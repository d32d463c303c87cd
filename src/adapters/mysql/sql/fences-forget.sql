-- Deletes fences that this transaction has locked.
-- params: ids text list
delete from outlast_fence where task_id in ($1)
