-- Waiting tasks of a queue are in one of four sorted sets: their time has come or not, and they are suspects or not. The
-- member is a digit for the priority, the number of arrival and the id: of equals the first that came is first.
local URGENCY = 2 ^ 44

local function is_suspect(record)
  return record[CRASHES] > 0 and record[CRASHES] >= math.min(2, record[BUDGET])
end

local function waiting_set(queue, suspected, is_later)
  return root .. (is_later and 'later' or 'ready') .. (suspected and '-suspects:' or ':') .. queue
end

local function urgency_of(record)
  return 9 - math.max(0, math.min(9, record[PRIORITY]))
end

local function member_of(id, record)
  return urgency_of(record) .. string.format('%010x', record[SEQ]) .. id
end

local function enter(id, record)
  local is_later = record[DUE] > now_ms
  local score = is_later and record[DUE] or urgency_of(record) * URGENCY + record[DUE]
  local set = waiting_set(record[QUEUE], is_suspect(record), is_later)
  plan('ZADD', set, digits(score), member_of(id, record))
  moved[record[QUEUE]] = moved[record[QUEUE]] or 0
  is_ready = true
end

local function leave(id, record)
  local suspected, member = is_suspect(record), member_of(id, record)
  plan('ZREM', waiting_set(record[QUEUE], suspected, false), member)
  plan('ZREM', waiting_set(record[QUEUE], suspected, true), member)
end

-- Due after a delay, or as before: then it stands in front of what came later.
local function wait(id, record, delay_ms)
  record[STATE], record[RUN], record[OWNER] = 'w', '', ''
  if delay_ms then record[DUE] = now_ms + delay_ms end
  enter(id, record)
end
