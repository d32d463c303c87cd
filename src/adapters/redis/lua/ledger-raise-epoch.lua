#!lua flags=allow-oom
-- Raises the epoch of a run above one that a fence has seen. If its own is higher nothing changes, and it only returns
-- whether the run still owns its task. A repeat finds the epoch as it left it.
-- keys: root
-- args: id, epoch, run, above
-- bound: one task
-- returns: { 1, epoch } it owns its task, under this epoch | { 2 } it does not | { 3 } no record
local root = KEYS[1]
local id, epoch, run, above = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
-- include: now
-- include: ledger-record
read({ id })
local record = records[id]
if not record then return { 3 } end
if record[STATE] ~= STATE_RUNNING or record[RUN] ~= run then return { 2 } end
if record[EPOCH] ~= epoch and record[EPOCH] ~= above + 1 then return { 2 } end
if record[EPOCH] <= above then
  record[EPOCH] = above + 1
  plan('HSET', root .. 'r:' .. record[OWNER], id, digits(record[EPOCH]) .. ' ' .. run)
  write(id, record)
  flush()
end
return { 1, record[EPOCH] }
