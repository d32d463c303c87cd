-- How many tasks ended, and how, including those deleted since. Done are those that are kept and were not withdrawn.
-- params: none
with withdrawn as materialized (
  select count(*) filter (where ending = 'dead') as purged, count(*) filter (where ending = 'expired') as expired,
    count(*) filter (where ending = 'cancelled') as cancelled
  from outlast_task where state = 'cancelled'
), forgotten as (
  select coalesce(sum(count) filter (where ending = 'dead'), 0) as purged,
    coalesce(sum(count) filter (where ending = 'expired'), 0) as expired,
    coalesce(sum(count) filter (where ending = 'cancelled'), 0) as cancelled,
    coalesce(sum(count) filter (where ending in ('done', 'discarded')), 0) as done
  from outlast_counter
)
select ((select count(*) from outlast_task where keep_until is not null) - w.purged - w.expired - w.cancelled + f.done)::text as done,
  (w.cancelled + f.cancelled)::text as cancelled, (w.expired + f.expired)::text as expired, (w.purged + f.purged)::text as purged,
  (select count(*) from outlast_task where state = 'dead')::text as dead,
  (select count(*) from outlast_worker where state = 'open' and deadline >= clock_timestamp())::text as workers
from withdrawn w, forgotten f
