-- Rows of the outbox by queue.
-- params: none
select queue, count(*)::text as rows from outlast_outbox group by queue order by queue collate "C"
