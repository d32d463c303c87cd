-- Keeps one part of a large checkpoint; a repeat writes the same bytes again.
-- params: task_id text, epoch bigint, seq bigint, part int, data bytea
insert into outlast_checkpoint (task_id, epoch, seq, part, data) values ($1, $2, $3, $4, $5)
on conflict (task_id, epoch, seq, part) do update set data = excluded.data, created_at = excluded.created_at
