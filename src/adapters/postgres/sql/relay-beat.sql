-- Proves that a relay lives.
-- params: relay text, lease_ms bigint
insert into outlast_relay (id, lease_until) values ($1, clock_timestamp() + $2::bigint * interval '1 millisecond')
on conflict (id) do update set lease_until = excluded.lease_until
