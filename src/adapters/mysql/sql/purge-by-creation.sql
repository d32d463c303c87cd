-- As purge-by-death.sql, for letters whose tasks were sent long enough ago whenever they died.
-- params: created_ms bigint, name_pattern text, limit int
select task_id as id, task_name as name from outlast_dead_letter force index (outlast_dead_letter_created_at)
where created_at <= utc_timestamp(6) - interval $1 * 1000 microsecond and task_name like $2 escape '!'
order by created_at, task_id limit $3 for update skip locked
