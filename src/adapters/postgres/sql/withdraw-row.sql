-- Deletes the row of a task that was cancelled before it was published. One that is claimed is on its way by now.
-- params: task_id text
delete from outlast_outbox where task_id = $1 and state = 'pending' returning id::text as row
