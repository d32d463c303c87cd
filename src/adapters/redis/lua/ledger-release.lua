#!lua flags=allow-oom
-- Gives runs back: due as before, so in front of what came later; nothing counted.
-- keys: root
-- args: items
-- returns: for each item 1 done | 2 not the owner | 3 no record
local root = KEYS[1]
-- include: now
-- include: ledger-record
-- include: ledger-waiting
-- include: ledger-settle
return settle(cmsgpack.unpack(ARGV[1]), 'r', function(id, record)
  note(record, 'r')
  wait(id, record, nil)
end)
