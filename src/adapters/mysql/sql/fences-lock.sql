-- Locks those of these fences that are not in use and were not used since they were due.
-- params: ids text list
select task_id, is_over from outlast_fence
where task_id in ($1) and look_at < utc_timestamp(6) for update skip locked
