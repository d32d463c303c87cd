-- Where one task is, and what happened to it.
-- params: id text
select id, name, queue, state, epoch::text as epoch, failures, crashes, created_at, history from outlast_task where id = $1
