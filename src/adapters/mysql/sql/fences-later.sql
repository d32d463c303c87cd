-- Tasks that are not over are looked up again: the older a fence the later, between a minute and an hour.
-- params: ids text list
update outlast_fence set is_over = false,
  look_at = utc_timestamp(6) + interval least(greatest(timestampdiff(second, updated_at, utc_timestamp(6)), 60), 3600) second
where task_id in ($1)
