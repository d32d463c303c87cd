-- breaking: no
-- Since when a row is due, and whether a relay has had it before, can be read without reading the row. An index that replaces
-- another costs a sender less than one more.
alter table outlast_outbox
  drop key outlast_outbox_due,
  add key outlast_outbox_due (state, available_at, id, schema_version, retries, queue, claims, deaths, created_at, eta);
