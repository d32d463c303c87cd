#!lua flags=allow-oom
-- Stores progress of a run. Within one epoch the sequence must grow; a newer epoch continues where the last one ended.
-- It replaces what was stored before and belongs to work in progress, so it is allowed when memory is full.
-- keys: root
-- args: id, epoch, run, seq, data
-- bound: one task
-- returns: 1 stored, now or before | 2 not the owner, or not newer | 3 no record
local root = KEYS[1]
local id, epoch, run, seq, data = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]), ARGV[5]
-- include: now
-- include: ledger-record
read({ id })
local record = records[id]
if not record then return 3 end
if record[STATE] ~= STATE_RUNNING or record[EPOCH] ~= epoch or record[RUN] ~= run then return 2 end
if record[CHECKPOINT_EPOCH] == epoch and record[CHECKPOINT_SEQ] >= seq then
  local is_same = record[CHECKPOINT_SEQ] == seq and redis.call('GET', root .. 'c:' .. id) == data
  return is_same and 1 or 2
end
record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = epoch, seq
plan('SET', root .. 'c:' .. id, data)
-- The worker that began it no longer knows the whole record, see `ledger-commit-new`.
plan('HSET', root .. 'r:' .. record[OWNER], id, '+' .. digits(epoch) .. ' ' .. run)
write(id, record)
flush()
return 1
