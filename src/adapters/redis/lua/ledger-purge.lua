#!lua flags=allow-oom
-- Ends dead tasks: bytes, error and history go at once. What stays for a day is a tombstone that turns away late copies.
-- One that was revived meanwhile, or died again, is left alone.
-- keys: root
-- args: items
-- returns: for each item 1 purged | 2 not that death any more
local root = KEYS[1]
-- include: now
-- include: ledger-record
-- An item is: id, version.
local items, ids, statuses = cmsgpack.unpack(ARGV[1]), {}, {}
for place, item in ipairs(items) do ids[place] = item[1] end
read(ids)
for place, item in ipairs(items) do
  local id, record = item[1], records[item[1]]
  statuses[place] = 2
  if record and record[STATE] == 'x' and record[DEATHS] == item[2] then
    plan('ZREM', root .. 'dead', id)
    finish(id, record, 'c', 'purged', DAY_MS)
    record[ENDING], record[ERROR], record[HISTORY] = 'dead', '', ''
    note(record, 'g')
    write(id, record)
    statuses[place] = 1
  end
end
flush()
return statuses
