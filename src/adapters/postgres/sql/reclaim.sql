-- Returns rows whose claim is over: it expired, or the relay that holds it lost its lease. A thousand at once, the rest with
-- the next pass.
-- params: none
with over as (
  select o.id from outlast_outbox o
  where o.state = 'claimed' and (
    o.claimed_until < clock_timestamp()
    or not exists (select 1 from outlast_relay r where r.id = o.claimed_by and r.lease_until >= clock_timestamp()))
  limit 1000 for update skip locked
)
update outlast_outbox o
set state = 'pending', claim_token = null, claimed_by = null, claimed_until = null, updated_at = clock_timestamp()
from over where o.id = over.id
