-- Marks the database of the caller's transaction until that ends, by a lock that no session waits for: a connection that sees
-- it is connected to the same server and the same database, and not to a copy of it.
-- params: key text
select pg_try_advisory_xact_lock_shared($1::text::bigint)::text as marked, to_regclass('outlast_outbox')::oid::text as outbox,
  current_database()::text || coalesce(' on ' || host(inet_server_addr()) || ':' || inet_server_port(), '') as name
