-- Fences whose task is to be looked up, longest waiting first.
-- params: limit int
select task_id, is_over from outlast_fence where look_at < utc_timestamp(6) order by look_at limit $1
