-- Where one task is, and what happened to it.
-- params: id text
select id, name, queue, state, epoch::text as epoch, failures, crashes, created_at, history from outlast_task where id = $1
union all
select task_id, task_name, queue, 'pending', '0', 0, 0, created_at, ''::bytea from outlast_outbox where task_id = $1
limit 1
