-- Rows of the outbox with problems. The 2 is only the constant of the index.
-- params: known_format int, orphan_ms bigint
select
  (select count(*) from outlast_outbox where schema_version > 2 and schema_version > $1)::text as unsupported,
  (select count(*) from outlast_outbox o where o.state = 'claimed' and (
      o.claimed_until < clock_timestamp() - $2::bigint * interval '1 millisecond'
      or (o.updated_at < clock_timestamp() - $2::bigint * interval '1 millisecond' and not exists (
        select 1 from outlast_relay r where r.id = o.claimed_by and r.lease_until >= clock_timestamp() - $2::bigint * interval '1 millisecond'))
    ))::text as orphans,
  (select count(*) from outlast_relay where lease_until >= clock_timestamp())::text as relays,
  (select count(*) from outlast_dead_letter)::text as dead,
  (select count(distinct ordering_key) from outlast_dead_letter where parks_key and ordering_key is not null)::text as parked
