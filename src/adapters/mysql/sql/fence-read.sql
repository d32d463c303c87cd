-- Whose the fence is that this transaction has locked: as it is now, whatever an older snapshot says.
-- params: id text
select cast(epoch as char) as epoch, run from outlast_fence where task_id = $1 for update
