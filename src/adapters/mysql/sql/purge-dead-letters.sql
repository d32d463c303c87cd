-- Locks up to $4 dead letters that a purge may delete, oldest death first; delete-dead-letters.sql follows. This frees the key
-- of a letter that parked it. A letter that is just being revived is skipped.
-- params: dead_ms bigint, created_ms bigint, name_like text, limit int
select task_id as id, task_name as name from outlast_dead_letter force index (outlast_dead_letter_dead_at)
where ($1 is null or dead_at < utc_timestamp(6) - interval $1 * 1000 microsecond)
  and ($2 is null or created_at < utc_timestamp(6) - interval $2 * 1000 microsecond)
  and ($3 is null or task_name like $3)
order by dead_at, task_id limit $4 for update skip locked
