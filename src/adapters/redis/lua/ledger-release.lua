#!lua flags=allow-oom
-- Gives runs back; nothing is counted. Due as before, so before later tasks, or after a delay.
-- keys: root
-- args: items
-- bound: 500 items
-- returns: for each item 1 done | 2 not the owner | 3 no record
local root = KEYS[1]
-- include: now
-- include: ledger-record
-- include: ledger-waiting
-- include: ledger-settle
-- An item continues with: the delay in milliseconds or false.
return settle(cmsgpack.unpack(ARGV[1]), 'r', function(id, record, item)
  note(record, STEP_RELEASED)
  wait(id, record, item[4] or nil)
end)
