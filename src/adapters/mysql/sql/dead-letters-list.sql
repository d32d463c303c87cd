-- Dead letters, newest first, after a cursor: the instant of a death and its id.
-- params: dead_at text, id text, limit int
select task_id as id, task_name as name, queue, failure_reason as error, version,
  timestampdiff(microsecond, '1970-01-01 00:00:00', dead_at) div 1000 as dead_ms, concat(dead_at, '+00') as cursor_at
from outlast_dead_letter force index (outlast_dead_letter_dead_at)
where $1 is null or dead_at < $1 or (dead_at = $1 and task_id < $2)
order by dead_at desc, task_id desc limit $3
