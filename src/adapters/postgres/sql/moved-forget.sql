-- A move is complete: none of its tasks can come twice any more.
-- params: none
delete from outlast_moved
