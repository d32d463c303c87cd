-- Entries that could not be carried out are due again later. Deleted entries stay deleted.
-- params: keys text[], delays_ms bigint[], attempts int[]
update outlast_after a set
  due = clock_timestamp() + i.delay_ms * interval '1 millisecond', attempts = a.attempts + i.attempts
from unnest($1::text[], $2::bigint[], $3::int[]) as i(key, delay_ms, attempts)
where a.key = i.key
