-- The stores that have served beside this database.
-- params: none
select role, store, last_at from outlast_tier order by role, store
