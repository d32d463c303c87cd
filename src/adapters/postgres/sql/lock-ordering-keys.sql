-- Locks ordering keys until the caller's transaction ends, before any row with one of them is written: so the order of
-- the rows' ids is the order of the commits, for each key. A separate statement, because the ids must be drawn after
-- the lock is held. Locked in the order of their numbers, so that two callers with the same keys do not deadlock.
-- The second argument of the hash separates these locks from advisory locks of the user's own.
-- params: keys text
select pg_advisory_xact_lock(k.number)::text as locked
from (
  select distinct hashtextextended(key, 31372865309864820) as number
  from jsonb_array_elements_text($1::text::jsonb) as key
  order by 1
) k
