#!lua flags=allow-oom
-- A dead task waits again, once: the version names the death to undo. One that has expired would only be cancelled, so
-- it stays dead. A follow-up that was never sent is written as one again, and its record is removed: the message would
-- find it, and its queue may be one that none of our workers takes from.
-- keys: root
-- args: id, version, is_told_to_celery
-- bound: one task
-- returns: 1 waiting | 2 not dead, or by another death | 3 no record | 4 its time is over
local root, id, version = KEYS[1], ARGV[1], tonumber(ARGV[2])
-- include: now
-- include: ledger-record
-- include: ledger-waiting
read({ id })
local record = records[id]
if not record then return 3 end
if record[STATE] ~= STATE_DEAD or record[DEATHS] ~= version then return 2 end
if record[EXPIRES] and record[EXPIRES] <= now_ms then return 4 end
blame(record, -faults(record))
plan('ZREM', root .. 'dead', id)
if ARGV[3] == '1' then plan('UNLINK', 'celery-task-meta-' .. id) end
if record[WHY] == 'ERR_FOLLOW_UP_UNSENT' or record[WHY] == 'ERR_DESTINATION_REFUSED' then
  local message = { id }
  for place = NAME, BODY do message[place - NAME + 2] = record[place] end
  message[10] = record[BODY] or redis.call('GET', root .. 'b:' .. id)
  local key = id .. '/revived:' .. digits(version)
  write_after(key, cmsgpack.pack({ 'publish', message }))
  plan('ZADD', root .. 'after', 'XX', now_ms - 3600000, key)
  plan('UNLINK', root .. 't:' .. id, root .. 'b:' .. id)
  flush()
  return 1
end
record[FAILURES], record[CRASHES], record[ENDED] = 0, 0, 0
record[ENDING], record[WHY], record[ERROR] = '', '', ''
note(record, STEP_REVIVED)
wait(id, record, 0)
write(id, record)
flush()
return 1
