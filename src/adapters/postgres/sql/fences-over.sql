-- Tasks that are over, or unknown, are looked up once more after a while. A fence that is in use is left alone.
-- params: ids text[], keep_ms bigint
update outlast_fence set is_over = true, look_at = clock_timestamp() + $2 * interval '1 millisecond'
where task_id in (
  select task_id from outlast_fence where task_id = any($1::text[]) and look_at < clock_timestamp() for update skip locked
)
