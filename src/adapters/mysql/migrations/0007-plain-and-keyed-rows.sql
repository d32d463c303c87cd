-- breaking: no
-- Due rows without an ordering key, so that a look for them does not walk over a backlog under a key.
alter table outlast_outbox add key outlast_outbox_plain (ordering_key, state, available_at, id);
