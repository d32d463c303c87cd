-- Deletes keys whose window is over and whose task has left the outbox, and has been begun.
-- params: limit int
delete from outlast_send_key where key in (
  select k.key from outlast_send_key k
  where k.free_at < statement_timestamp() and not exists (select 1 from outlast_outbox o where o.task_id = k.task_id)
    and not exists (select 1 from outlast_task t where t.id = k.task_id and t.state in ('waiting', 'refused') and t.epoch = 0)
  order by k.free_at limit $1 for update skip locked)
returning key
