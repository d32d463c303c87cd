-- Deletes the steps of forgotten tasks.
-- params: ids text list
delete from outlast_effect where task_id in ($1) and ttl_ms is null
