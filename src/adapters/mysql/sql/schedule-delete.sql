-- Deletes a schedule that this transaction has locked.
-- params: name text
delete from outlast_schedule where name = $1
