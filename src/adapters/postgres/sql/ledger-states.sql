-- The states of these tasks. Those that are not known have no row.
-- params: ids text[]
select id, state from outlast_task where id = any($1::text[])
