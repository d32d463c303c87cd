-- A worker reports the queues it takes from, and gets the operators' orders. Its row is written only when that changes.
-- params: worker text, queues text[]
with said as (
  update outlast_worker set queues = $2::text[] where id = $1 and queues <> $2::text[]
)
select coalesce((select draining from outlast_worker where id = $1), false) as draining,
  array_to_json(array(select name from outlast_queue order by name collate "C"))::text as paused
