-- Whether the task is known in this database at all.
-- params: id text
select 1 as known from outlast_task where id = $1::text
