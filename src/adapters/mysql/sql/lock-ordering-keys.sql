-- Locks the rows of ordering keys until the caller's transaction ends, in the same order in every session. With a limit, so
-- that `sql_select_limit` of the caller's session does not apply.
-- params: slots int list
select cast(slot as char) as slot from outlast_ordering_key where slot in ($1) order by slot limit 1000000 for update
