-- Rows by state, and how many are in a format this version does not know: a relay must be upgraded. Of pending rows also how
-- many are due, and how many wait after a failure or because a relay put them off. How long the oldest of each state has been
-- due is counted from the first moment on. It reads an index and no row.
-- params: known_format int
select state, count(*) as count, sum(schema_version > $1) as unsupported, sum(available_at <= utc_timestamp(6)) as due,
  sum(available_at > utc_timestamp(6) and (claims > 0 or deaths > 0) and retries > 0) as backoff,
  sum(available_at > utc_timestamp(6) and (claims > 0 or deaths > 0) and retries = 0) as deferred,
  timestampdiff(microsecond, min(greatest(created_at, coalesce(eta, created_at))), utc_timestamp(6)) div 1000 as oldest_ms
from outlast_outbox force index (outlast_outbox_due) group by state
