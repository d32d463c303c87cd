-- The bytes that an id stands for; the row may have been moved on since it was in the way.
-- params: id text
select digest from outlast_outbox where task_id = $1::text
union all
select digest from outlast_task where id = $1::text
limit 1
