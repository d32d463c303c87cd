-- Keeps one part of a large checkpoint; a repeat writes the same bytes again.
-- params: task_id text, epoch bigint, seq bigint, part int, data longblob
insert into outlast_checkpoint (task_id, epoch, seq, part, data, created_at) values ($1, $2, $3, $4, $5, utc_timestamp(6))
on duplicate key update data = values(data), created_at = values(created_at)
