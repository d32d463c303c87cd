-- Locks ordering keys until the caller's transaction ends, before any row with one of them is written: so the order of
-- the rows' ids is the order of the commits, for each key. A statement of its own, because the ids must be drawn after
-- the lock is held. Taken in the order of their numbers, so that two callers with the same keys never wait in a circle.
-- The second argument of the hash keeps these locks apart from advisory locks of the user's own.
-- params: keys text
select pg_advisory_xact_lock(k.number)::text as locked
from (
  select distinct hashtextextended(key, 31372865309864820) as number
  from jsonb_array_elements_text($1::text::jsonb) as key
  order by 1
) k
