-- The state of one record.
-- params: id text
select state from outlast_task where id = $1
