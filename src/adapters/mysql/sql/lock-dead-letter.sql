-- Locks a dead letter until the transaction ends and says which death it is of.
-- params: task_id text
select task_id as id, version from outlast_dead_letter where task_id = $1 for update
