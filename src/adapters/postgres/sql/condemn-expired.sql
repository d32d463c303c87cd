-- Closes incarnations whose deadline passed. FOR UPDATE conflicts with the key-share lock of a begin, and skips it:
-- a worker that is beginning right now is checked again next time. The deadline is compared again under the lock.
-- params: none
with dead as materialized (
  select id from outlast_worker where state = 'open' and deadline < clock_timestamp() order by id for update skip locked
), closed as (
  update outlast_worker w set state = 'closed' from dead where w.id = dead.id and w.deadline < clock_timestamp() returning w.id
)
select (extract(epoch from clock_timestamp()) * 1000)::bigint::text as store_ms, c.id
from (select 1) one left join closed c on true
