-- Locks up to $4 dead letters that died long enough ago, oldest first, for delete-dead-letters.sql. A pattern knows % and _
-- with ! before those that mean themselves.
-- params: dead_ms bigint, created_ms bigint, name_pattern text, limit int
select task_id as id, task_name as name from outlast_dead_letter force index (outlast_dead_letter_dead_at)
where dead_at <= utc_timestamp(6) - interval $1 * 1000 microsecond
  and created_at <= utc_timestamp(6) - interval $2 * 1000 microsecond and task_name like $3 escape '!'
order by dead_at, task_id limit $4 for update skip locked
