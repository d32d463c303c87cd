#!lua flags=allow-oom
-- Ends runs as done: result, tombstone, follow-ups and counters, and only for the run that owns the task. The tombstone
-- goes by itself when its time is over; the counters stay.
-- keys: root
-- args: items
-- returns: for each item 1 done | 2 not the owner | 3 no record
local root = KEYS[1]
-- include: now
-- include: ledger-record
-- include: ledger-settle
-- An item goes on with: ending, why, result, milliseconds to keep it, and keys and bytes of what must follow.
return settle(cmsgpack.unpack(ARGV[1]), 'c', function(id, record, item)
  local ending, why, result, keep_ms, after = item[4], item[5], item[6], item[7], item[8]
  note(record, ending == 'done' and 'd' or 'i')
  finish(id, record, 'd', ending, keep_ms)
  record[WHY], record[RESULT], record[ERROR] = why, result, ''
  for place = 1, #after, 2 do
    plan('ZADD', root .. 'after', 'NX', now_ms, after[place])
    plan('HSETNX', root .. 'after-entries', after[place], after[place + 1])
  end
end)
