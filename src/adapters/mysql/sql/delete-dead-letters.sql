-- Deletes dead letters that this transaction has locked.
-- params: task_ids text list
delete from outlast_dead_letter where task_id in ($1)
