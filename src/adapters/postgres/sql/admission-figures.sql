-- The figures of every key. `available` is what the rate would grant now.
-- params: none
select s.key, s.rate_limit::text as rate_limit, s.per_ms::numeric::text as per_ms, s.burst::text as burst, s.concurrency, s.rejected::text as rejected,
  least(s.burst, greatest(0, (m.us + s.burst * s.interval_us - greatest(s.tat_us, m.us)) / s.interval_us))::text as available,
  (select count(*) from outlast_place p where p.key = s.key)::text as held,
  (select count(*) from outlast_place_wanted w where w.key = s.key)::text as waiting
from outlast_admission s, (select floor(extract(epoch from clock_timestamp()) * 1000000)::bigint as us) m
order by s.key collate "C"
