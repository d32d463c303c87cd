-- breaking: no
-- transaction: no
-- Rows with an ordering key are looked up by key, and only the first of each. They stand in an index of their own, so that a
-- look for other rows does not walk over a backlog of them. A row has as many entries as before.
create index concurrently outlast_outbox_plain on outlast_outbox (available_at, id) where state = 'pending' and ordering_key is null;
create index concurrently outlast_outbox_keyed on outlast_outbox (available_at, id) where state = 'pending' and ordering_key is not null;
drop index concurrently if exists outlast_outbox_due;
