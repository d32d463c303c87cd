-- Rows that wait, oldest first, after a cursor.
-- params: after bigint, limit int
select id as row_id, task_id as id, task_name as name, queue, state, retries, last_error, ordering_key,
  timestampdiff(microsecond, '1970-01-01 00:00:00', created_at) div 1000 as created_ms,
  timestampdiff(microsecond, '1970-01-01 00:00:00', available_at) div 1000 as available_ms
from outlast_outbox where outlast_outbox.id > $1 order by outlast_outbox.id limit $2
