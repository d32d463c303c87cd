-- Proves that a relay lives.
-- params: relay text, lease_ms bigint
insert into outlast_relay (id, lease_until) values ($1, utc_timestamp(6) + interval $2 * 1000 microsecond)
on duplicate key update lease_until = values(lease_until)
