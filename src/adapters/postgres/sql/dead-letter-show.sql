-- One dead letter with its bytes and history.
-- params: id text
select id, name, queue, 'worker' as place, reason, error, ended_at as dead_at, version, body, options, history
from outlast_task where state = 'dead' and id = $1
union all
select task_id, task_name, queue, 'relay', 'ERR_ATTEMPTS_SPENT',
  convert_to('{"type":"relay","message":' || to_json(failure_reason)::text || ',"traceback":""}', 'UTF8'), dead_at, version,
  '\x5b'::bytea || args || '\x2c'::bytea || kwargs || '\x2c'::bytea || embed || '\x5d'::bytea, options, error_history
from outlast_dead_letter where task_id = $1
