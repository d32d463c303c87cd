-- Milliseconds until a waiting task of these queues becomes due, a day at most; no row when there is none.
-- Suspects count only for a worker that may have one now.
-- params: queues text[], suspects int
/* kept plan */
select (extract(epoch from least(greatest(min(t.due), clock_timestamp()), clock_timestamp() + interval '1 day') - clock_timestamp()) * 1000)::bigint::text as wait_ms
from unnest($1::text[]) as q(name)
cross join generate_series(0, 9) as p(priority)
cross join lateral (
  (select t.due from outlast_task t
    where t.state = 'waiting' and not t.suspect and t.queue = q.name and t.priority = p.priority order by t.due, t.seq limit 1)
  union all
  (select t.due from outlast_task t
    where $2::int > 0 and t.state = 'waiting' and t.suspect and t.queue = q.name and t.priority = p.priority order by t.due, t.seq limit 1)
) t
having min(t.due) is not null
