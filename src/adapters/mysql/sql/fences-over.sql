-- Tasks that are over, or unknown, are looked up once more after a while.
-- params: ids text list, keep_ms bigint
update outlast_fence set is_over = true, look_at = utc_timestamp(6) + interval $2 * 1000 microsecond where task_id in ($1)
