-- Dead letters of both kinds, newest first, after a cursor.
-- params: dead_at text, id text, limit int
select d.*, d.dead_at::text as cursor_at from (
  (select id, name, queue, 'worker' as place, reason, error, ended_at as dead_at, version from outlast_task
    where state = 'dead' and ($1::text is null or (ended_at, id) < ($1::text::timestamptz, $2::text))
    order by ended_at desc, id desc limit $3)
  union all
  (select task_id, task_name, queue, 'relay', 'ERR_ATTEMPTS_SPENT',
      convert_to('{"type":"relay","message":' || to_json(failure_reason)::text || ',"traceback":""}', 'UTF8'), dead_at, version
    from outlast_dead_letter
    where $1::text is null or (dead_at, task_id) < ($1::text::timestamptz, $2::text)
    order by dead_at desc, task_id desc limit $3)
) d order by dead_at desc, id desc limit $3
