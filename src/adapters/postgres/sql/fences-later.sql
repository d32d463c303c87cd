-- Tasks that are not over are looked up again: the older a fence the later, between a minute and an hour.
-- params: ids text[]
update outlast_fence set is_over = false, look_at = clock_timestamp()
  + least(greatest(clock_timestamp() - updated_at, interval '1 minute'), interval '1 hour')
where task_id in (
  select task_id from outlast_fence where task_id = any($1::text[]) and look_at < clock_timestamp() for update skip locked
)
