#!lua flags=allow-oom
-- A dead task waits again, once: the version names the death that is undone. One that expired meanwhile would only be
-- cancelled, so it stays.
-- keys: root
-- args: id, version, is_told_to_celery
-- returns: 1 waiting | 2 not dead, or by another death | 3 no record | 4 its time is over
local root, id, version = KEYS[1], ARGV[1], tonumber(ARGV[2])
-- include: now
-- include: ledger-record
-- include: ledger-waiting
read({ id })
local record = records[id]
if not record then return 3 end
if record[STATE] ~= 'x' or record[DEATHS] ~= version then return 2 end
if record[EXPIRES] and record[EXPIRES] <= now_ms then return 4 end
blame(record, -faults(record))
plan('ZREM', root .. 'dead', id)
if ARGV[3] == '1' then plan('UNLINK', 'celery-task-meta-' .. id) end
record[FAILURES], record[CRASHES], record[ENDED] = 0, 0, 0
record[ENDING], record[WHY], record[ERROR] = '', '', ''
note(record, 'v')
wait(id, record, 0)
write(id, record)
flush()
return 1
