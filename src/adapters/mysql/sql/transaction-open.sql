-- Begins the transaction of a session without autocommit, as any look at a table does. A locking look, because another
-- one would fix what the caller's transaction sees; it locks a gap into which nothing is ever inserted.
-- params: none
select 1 from outlast_ordering_key where slot < 0 lock in share mode
