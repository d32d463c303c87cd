#!lua flags=allow-oom
-- Keeps messages that can never run as dead letters, whatever memory is left: no other store has them.
-- keys: root
-- args: items
-- bound: 500 items, 8 MiB
-- returns: for each item 1 kept | 2 its id is another record's
local root = KEYS[1]
-- include: now
-- include: ledger-record
-- include: ledger-bury-message
-- An item is: the message, the reason, the error.
local items, ids, statuses = cmsgpack.unpack(ARGV[1]), {}, {}
for place, item in ipairs(items) do ids[place] = item[1][1] end
read(ids)
for place, item in ipairs(items) do
  statuses[place] = bury_message(item[1], item[2], item[3], #items)
end
flush()
return statuses
