-- Takes from rates, each independently, as gcra.ts does: a grant moves the time on, a refusal moves nothing.
-- The clock is read once, before the row is locked: each call counts at a moment between its request and its answer.
-- Rows are locked in the order of their keys, to avoid deadlocks.
-- A time further ahead than the rate can reach belongs to another rate, or to a clock that was set back: it is cut. This uses
-- the clock under the lock: with that of the request, a call that waited for a lock would cut what others took meanwhile.
-- params: keys text[], counts bigint[], intervals_us bigint[], bursts bigint[], limits bigint[], pers_ms float8[]
with moment as materialized (
  select floor(extract(epoch from clock_timestamp()) * 1000000)::bigint as us
), ask as materialized (
  select a.*, m.us from unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::float8[])
    with ordinality as a(key, n, interval_us, burst, rate_limit, per_ms, place), moment m
), taken as (
  insert into outlast_admission as s
    (key, tat_us, asked_us, granted, interval_us, burst, rate_limit, per_ms, rejected)
  select key, us + least(n, burst) * interval_us, us, least(n, burst), interval_us, burst, rate_limit, per_ms, n - least(n, burst)
  from ask order by key
  on conflict (key) do update set
    tat_us = case
      when s.tat_us > extract(epoch from clock_timestamp()) * 1000000 + excluded.burst * excluded.interval_us + 1000000
        then floor(extract(epoch from clock_timestamp()) * 1000000)::bigint + excluded.burst * excluded.interval_us
      when greatest(s.tat_us, excluded.asked_us) + excluded.interval_us
          > excluded.asked_us + excluded.burst * excluded.interval_us
        then s.tat_us
      else greatest(s.tat_us, excluded.asked_us) + excluded.interval_us * least(
        excluded.granted + excluded.rejected,
        (excluded.asked_us + excluded.burst * excluded.interval_us - greatest(s.tat_us, excluded.asked_us)) / excluded.interval_us)
    end,
    granted = least(excluded.granted + excluded.rejected, greatest(0,
      (excluded.asked_us + excluded.burst * excluded.interval_us - greatest(s.tat_us, excluded.asked_us)) / excluded.interval_us)),
    rejected = s.rejected + excluded.granted + excluded.rejected - least(excluded.granted + excluded.rejected, greatest(0,
      (excluded.asked_us + excluded.burst * excluded.interval_us - greatest(s.tat_us, excluded.asked_us)) / excluded.interval_us)),
    asked_us = excluded.asked_us, interval_us = excluded.interval_us, burst = excluded.burst,
    rate_limit = excluded.rate_limit, per_ms = excluded.per_ms, used_at = clock_timestamp()
  returning s.key, s.tat_us, s.asked_us, s.granted
)
select t.granted::text as granted, t.tat_us::text as tat_us,
  (case when t.granted = a.n then 0
    else greatest(t.tat_us, t.asked_us) + a.interval_us - t.asked_us - a.burst * a.interval_us end)::text as wait_us
from ask a join taken t on t.key = a.key
order by a.place
