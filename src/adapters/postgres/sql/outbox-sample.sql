-- Figures of the outbox and of the relay's dead letters, each from its own index.
-- Rows in a format this version does not know are counted separately: a relay must be upgraded. The 2 is only the constant
-- of their index.
-- params: known_format int
select
  (select count(*) from outlast_outbox where state = 'pending')::text as pending,
  (select count(*) from outlast_outbox where state = 'claimed')::text as claimed,
  (select count(*) from outlast_outbox where state = 'sent')::text as sent,
  (select count(*) from outlast_outbox where schema_version > 2 and schema_version > $1)::text as unsupported,
  (select count(*) from outlast_dead_letter)::text as dead,
  (extract(epoch from clock_timestamp() - least(
    (select min(available_at) from outlast_outbox where state = 'pending' and available_at <= clock_timestamp()),
    (select min(available_at) from outlast_outbox where state = 'claimed'))) * 1000)::bigint::text as oldest_ms
