-- Rows that could not be published, newest death first, after a position.
-- params: dead_at text, id text, name_like text, limit int
select d.task_id as id, d.task_name as name, d.queue, d.failure_reason as error, d.version,
  date_format(d.dead_at, '%Y-%m-%dT%H:%i:%s.%fZ') as dead_at,
  timestampdiff(microsecond, '1970-01-01 00:00:00', d.created_at) div 1000 as created_ms, d.ordering_key, d.options
from outlast_dead_letter d force index (outlast_dead_letter_dead_at)
where ($1 is null or d.dead_at < $1 or (d.dead_at = $1 and d.task_id < $2)) and ($3 is null or d.task_name like $3)
order by d.dead_at desc, d.task_id desc limit $4
