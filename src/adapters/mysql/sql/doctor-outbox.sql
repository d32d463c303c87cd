-- Rows of the outbox with problems.
-- params: known_format int, orphan_ms bigint
select
  (select coalesce(sum(schema_version > $1), 0) from outlast_outbox force index (outlast_outbox_due)) as unsupported,
  (select count(*) from outlast_outbox o force index (outlast_outbox_claimed) left join outlast_relay r on r.id = o.claimed_by
    where o.claim_token > '' and (
      o.claimed_until < utc_timestamp(6) - interval $2 * 1000 microsecond
      or (o.updated_at < utc_timestamp(6) - interval $2 * 1000 microsecond
        and (r.lease_until is null or r.lease_until < utc_timestamp(6) - interval $2 * 1000 microsecond)))) as orphans,
  (select count(*) from outlast_relay where lease_until >= utc_timestamp(6)) as relays,
  (select count(*) from outlast_dead_letter) as dead,
  (select count(distinct ordering_key) from outlast_dead_letter where parks_key and ordering_key is not null) as parked
