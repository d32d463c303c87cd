-- Sums of the outbox and the relay's dead letters.
-- Rows in a format this version does not know are counted apart: somebody must upgrade a relay.
-- params: known_format int
select
  (select count(*) from outlast_outbox where state = 'pending')::text as pending,
  (select count(*) from outlast_outbox where state = 'claimed')::text as claimed,
  (select count(*) from outlast_outbox where state = 'sent')::text as sent,
  (select count(*) from outlast_outbox where schema_version > $1)::text as unsupported,
  (select count(*) from outlast_dead_letter)::text as dead,
  (select extract(epoch from clock_timestamp() - min(available_at)) from outlast_outbox
    where state in ('pending', 'claimed') and available_at <= clock_timestamp())::text as oldest_seconds
