-- Which run has the fence that this transaction has locked: the current one, not that of an older snapshot.
-- params: id text
select cast(epoch as char) as epoch, run from outlast_fence where task_id = $1 for update
