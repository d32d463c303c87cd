-- Closes one incarnation: it leaves by itself.
-- params: worker text, death text
with dead as materialized (
  select id from outlast_worker where state = 'open' and id = $1 for update
), closed as (
  update outlast_worker w set state = 'closed', death = $2 from dead where w.id = dead.id returning w.id, w.death
)
select (extract(epoch from clock_timestamp()) * 1000)::bigint::text as store_ms, c.id, c.death
from (select 1) one left join closed c on true
