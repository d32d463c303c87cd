-- breaking: no
-- transaction: no
-- Rows that a relay has had before and that wait again: failed, deferred or given back, or once a dead letter. Since when they
-- are due is not in the index of due rows, whose time is that of the next attempt. Other rows cost nothing here.
create index concurrently outlast_outbox_again on outlast_outbox (created_at) where state = 'pending' and (claims > 0 or deaths > 0);
