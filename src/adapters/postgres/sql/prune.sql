-- Deletes expired tombstones and their steps, but counts them first.
-- params: limit int
with over as materialized (
  select id from outlast_task where keep_until < statement_timestamp() order by keep_until limit $1 for update skip locked
), gone as (
  delete from outlast_task t using over where t.id = over.id returning t.id, t.queue, t.name, t.ending
), steps as (
  delete from outlast_step s using gone where s.task_id = gone.id
), also as (
  -- From the time when the ledger was elsewhere.
  delete from outlast_effect e using gone where e.task_id = gone.id and e.ttl_ms is null
), keyed as (
  update outlast_effect e set ends_at = statement_timestamp() + e.ttl_ms * interval '1 millisecond'
  from gone where e.task_id = gone.id and e.ttl_ms is not null
), counted as (
  insert into outlast_counter as c (queue, name, ending, count)
  select queue, name, ending, count(*) from gone group by queue, name, ending order by queue, name, ending
  on conflict (queue, name, ending) do update set count = c.count + excluded.count
)
select count(*)::text as pruned from gone
