#!lua flags=allow-oom
-- Ends dead tasks: bytes, error and history are dropped at once. A tombstone stays for a day and rejects late copies. A
-- task that was revived in the meantime, or died again, is left alone.
-- keys: root
-- args: items
-- bound: 500 items
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
  if record and record[STATE] == STATE_DEAD and record[DEATHS] == item[2] then
    plan('ZREM', root .. 'dead', id)
    finish(id, record, STATE_CANCELLED, 'purged', DAY_MS)
    record[ENDING], record[ERROR], record[HISTORY] = 'dead', '', ''
    note(record, STEP_PURGED)
    write(id, record)
    statuses[place] = 1
  end
end
flush()
return statuses
