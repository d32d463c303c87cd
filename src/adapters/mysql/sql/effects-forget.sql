-- Forgets the steps of tasks that are forgotten.
-- params: ids text list
delete from outlast_effect where task_id in ($1) and ttl_ms is null
