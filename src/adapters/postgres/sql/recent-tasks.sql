-- The newest tasks, wherever they are.
-- params: limit int
select * from (
  (select id, name, queue, state, epoch::text as epoch, failures, crashes, created_at, history from outlast_task order by created_at desc limit $1)
  union all
  (select task_id, task_name, queue, 'pending', '0', 0, 0, created_at, ''::bytea from outlast_outbox order by id desc limit $1)
) t order by created_at desc limit $1
