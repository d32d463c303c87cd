#!lua flags=allow-oom
-- Removes a task from the ledger that is elsewhere now, if it is still as listed.
-- keys: root
-- args: id, epoch
-- bound: the ids given: those of one list
-- returns: 1 gone | 2 it was begun, or has ended otherwise | 3 there is no record
local root, id, epoch = KEYS[1], ARGV[1], tonumber(ARGV[2])
-- include: now
-- include: ledger-record
-- include: ledger-waiting
read({ id })
local record = records[id]
if not record then return 3 end
if record[EPOCH] ~= epoch or (record[STATE] ~= STATE_WAITING and record[STATE] ~= STATE_DEAD) then return 2 end
blame(record, -faults(record))
if record[STATE] == STATE_WAITING then leave(id, record) else plan('ZREM', root .. 'dead', id) end
plan('UNLINK', root .. 't:' .. id, root .. 'b:' .. id, root .. 'c:' .. id)
flush()
return 1
