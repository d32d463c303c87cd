-- Closes incarnations whose deadline passed. FOR UPDATE conflicts with the key-share lock of a begin, and skips it:
-- a worker that is beginning right now is checked again next time. The deadline is compared again under the lock.
-- It is unknown how they ended: $2 if no worker of the host has a lease, $1 if another one has.
-- params: lease_lost text, host_lost text
with dead as materialized (
  select id, host from outlast_worker where state = 'open' and deadline < clock_timestamp() order by id for update skip locked
), closed as (
  update outlast_worker w set state = 'closed', death = case when exists (
    select 1 from outlast_worker o where o.state = 'open' and o.host = dead.host and o.deadline >= clock_timestamp()
  ) then $1 else $2 end
  from dead where w.id = dead.id and w.deadline < clock_timestamp() returning w.id, w.death
)
select (extract(epoch from clock_timestamp()) * 1000)::bigint::text as store_ms, c.id, c.death
from (select 1) one left join closed c on true
