#!lua flags=allow-oom
-- Gives runs back; nothing counted. Due as before, so in front of what came later, or after a delay.
-- keys: root
-- args: items
-- returns: for each item 1 done | 2 not the owner | 3 no record
local root = KEYS[1]
-- include: now
-- include: ledger-record
-- include: ledger-waiting
-- include: ledger-settle
-- An item goes on with: the delay in milliseconds or false.
return settle(cmsgpack.unpack(ARGV[1]), 'r', function(id, record, item)
  note(record, 'r')
  wait(id, record, item[4] or nil)
end)
