-- The states of these tasks. Unknown ones have no row.
-- params: ids text[]
select id, case state when 'refused' then 'waiting' else state end as state from outlast_task where id = any($1::text[])
