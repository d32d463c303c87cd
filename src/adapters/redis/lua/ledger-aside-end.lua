#!lua flags=allow-oom
-- Ends the waiting of a task that is still set aside: as a dead letter, or, without an error, by leaving the ledger
-- because the broker has it again; the latter only if no copy has come since it was listed. The epoch of a dead one
-- grows as if it had been begun: a task that never was has no follow-ups.
-- keys: root
-- args: id, error, celery_keep_ms, mark
-- bound: one task
-- returns: 1 done | 2 it was begun, or has ended | 3 there is no record
local root, id, err, celery_keep_ms, mark = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
-- include: now
-- include: ledger-record
-- include: ledger-waiting
-- include: celery-result
read({ id })
local record = records[id]
if not record then return 3 end
if record[STATE] ~= STATE_WAITING or not is_aside(id) then return 2 end
if err == '' and (record[EPOCH] > 0 or redis.sha1hex(redis.call('GET', root .. 't:' .. id)) ~= mark) then return 2 end
leave_aside(id, record)
if err == '' then
  plan('UNLINK', root .. 't:' .. id, root .. 'b:' .. id)
else
  record[EPOCH] = record[EPOCH] + 1
  note(record, STEP_BURIED, err)
  tell_celery_error(id, record, 'FAILURE', err)
  die(id, record, 'ERR_TASK_UNKNOWN', err)
  write(id, record)
end
flush()
return 1
