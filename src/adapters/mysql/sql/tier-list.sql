-- The stores that have served beside this database, the latest one last.
-- params: none
select role, store, last_at from outlast_tier order by last_at, role, store
