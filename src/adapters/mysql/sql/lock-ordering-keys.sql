-- Locks what ordering keys stand for until the caller's transaction ends, in one order for everybody.
-- params: slots int list
select cast(slot as char) as slot from outlast_ordering_key where slot in ($1) order by slot for update
