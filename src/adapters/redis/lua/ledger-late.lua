#!lua flags=no-writes
-- How many tasks of each queue are overdue by more than late_ms.
-- keys: root
-- args: late_ms
-- bound: 44 counts for each queue
-- returns: name and count of each queue that has some
local root, late_ms = KEYS[1], tonumber(ARGV[1])
-- include: now
-- include: ledger-record
-- include: ledger-waiting
local before_ms = now_ms - late_ms

local function count_late(queue, suspected)
  -- A task that no worker begins is not moved when it becomes due.
  local late = redis.call('ZCOUNT', waiting_set(queue, suspected, true), '-inf', '(' .. digits(before_ms))
  for urgency = 0, 9 do
    local first = urgency * URGENCY
    local set = waiting_set(queue, suspected, false)
    late = late + redis.call('ZCOUNT', set, digits(first), '(' .. digits(first + before_ms))
  end
  return late
end

local found = {}
for _, queue in ipairs(redis.call('HKEYS', root .. 'running')) do
  local late = count_late(queue, false) + count_late(queue, true)
  if late > 0 then found[#found + 1] = { queue, late } end
end
return found
