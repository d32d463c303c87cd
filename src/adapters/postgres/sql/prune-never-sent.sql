-- Deletes what no waiter asks for any more.
-- params: limit int
delete from outlast_never_sent where task_id in (
  select task_id from outlast_never_sent where keep_until < statement_timestamp() order by keep_until limit $1 for update skip locked)
