-- Rows of the outbox by queue, estimated from the ends of an index: those due first and those due last, $1 of each. A
-- backlog of millions is not read to count it.
-- params: rows_of_each_end int, total bigint
select s.queue, round(count(*) * $2 / (2 * $1)) as count from (
  (select queue from outlast_outbox force index (outlast_outbox_due) order by state, available_at, id limit $1)
  union all
  (select queue from outlast_outbox force index (outlast_outbox_due) order by state desc, available_at desc, id desc limit $1)
) s group by s.queue order by s.queue
