-- Locks a dead letter until the transaction ends, so that no purge deletes what is coming back, and returns its version and
-- whether its task has expired.
-- params: task_id text
select task_id as id, version, coalesce(expires_at <= utc_timestamp(6), 0) as is_expired
from outlast_dead_letter where task_id = $1 for update
