-- Locks keys whose window is over and whose task has left the outbox, for prune-send-keys-gone.sql to delete.
-- params: limit int
select k.key_hash from outlast_send_key k force index (outlast_send_key_free_at)
where k.free_at < utc_timestamp(6) and not exists (select 1 from outlast_outbox o where o.task_id = k.task_id)
order by k.free_at limit $1 for update skip locked
