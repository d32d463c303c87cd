-- Rows of the outbox by queue. It reads an index and no row.
-- params: none
select queue, count(*) as count from outlast_outbox force index (outlast_outbox_due) group by queue order by queue
