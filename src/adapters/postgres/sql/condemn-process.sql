-- Closes the incarnations of a process that was seen to end. Waits for a begin that is under way: its socket may
-- still hold bytes of the dead process.
-- params: process text, death text
with dead as materialized (
  select id from outlast_worker where state = 'open' and process = $1 order by id for update
), closed as (
  update outlast_worker w set state = 'closed', death = $2 from dead where w.id = dead.id returning w.id, w.death
)
select (extract(epoch from clock_timestamp()) * 1000)::bigint::text as store_ms, c.id, c.death
from (select 1) one left join closed c on true
