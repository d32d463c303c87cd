-- Rows whose claim is over: it expired, or the relay that holds it lost its lease. Read from an index and without locks, so
-- that the search costs the living relays nothing.
-- params: limit int
select o.id as row_id
from outlast_outbox o force index (outlast_outbox_claimed) left join outlast_relay r on r.id = o.claimed_by
where o.claim_token > '' and (
  o.claimed_until < utc_timestamp(6) or r.lease_until is null or r.lease_until < utc_timestamp(6))
limit $1
