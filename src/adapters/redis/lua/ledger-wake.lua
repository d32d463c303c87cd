#!lua flags=allow-oom
-- What these tasks waited for is available: the waiting ones are due since they were sent (or since their eta), so that they
-- stand before later tasks again. Also those whose own delay is over: they stand behind all that came meanwhile. All others are
-- left alone.
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
  if record and record[STATE] == STATE_WAITING then
    local position = math.min(now_ms, math.max(record[CREATED], record[ETA] or 0))
    if record[DUE] > position then
      leave(id, record)
      wait(id, record, position - now_ms)
      write(id, record)
      woken = woken + 1
    end
  end
end
flush()
return woken
