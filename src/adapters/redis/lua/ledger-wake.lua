#!lua flags=allow-oom
-- What these tasks waited for is available: the waiting ones are due now, all others are left alone.
-- keys: root
-- args: ids
-- bound: 500 ids
-- returns: how many were woken
local root, ids = KEYS[1], cmsgpack.unpack(ARGV[1])
-- include: now
-- include: ledger-record
-- include: ledger-waiting
local woken = 0
read(ids)
for _, id in ipairs(ids) do
  local record = records[id]
  if record and record[STATE] == STATE_WAITING and record[DUE] > now_ms then
    leave(id, record)
    wait(id, record, 0)
    write(id, record)
    woken = woken + 1
  end
end
flush()
return woken
