-- Waiting tasks of a queue are in one of four sorted sets: due or not, suspect or not. The member is a digit for the
-- priority, the arrival number and the id: of equals, the first to arrive comes first.
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

-- Tasks that a worker could not run are set aside: by queue and name, where a worker that can run them finds them; by
-- queue; and in the order in which that happened.
local function aside_set(queue, name)
  return root .. 'aside:' .. queue .. '\n' .. name
end

local function set_aside(id, record, by)
  note(record, STEP_REFUSED)
  plan('ZADD', aside_set(record[QUEUE], record[NAME]), digits(record[DUE]), id)
  plan('ZADD', root .. 'aside', now_text, id)
  plan('ZADD', root .. 'aside-queue:' .. record[QUEUE], now_text, id)
  plan('HSET', root .. 'aside-by', id, by)
  moved[record[QUEUE]] = moved[record[QUEUE]] or 0
  is_ready = true
end

local function is_aside(id)
  return redis.call('ZSCORE', root .. 'aside', id)
end

local function leave_aside(id, record)
  plan('ZREM', aside_set(record[QUEUE], record[NAME]), id)
  plan('ZREM', root .. 'aside', id)
  plan('ZREM', root .. 'aside-queue:' .. record[QUEUE], id)
  plan('HDEL', root .. 'aside-by', id)
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
  if is_aside(id) then return leave_aside(id, record) end
  local suspected, member = is_suspect(record), member_of(id, record)
  plan('ZREM', waiting_set(record[QUEUE], suspected, false), member)
  plan('ZREM', waiting_set(record[QUEUE], suspected, true), member)
end

-- Due after a delay, or as before: then it goes before later tasks.
local function wait(id, record, delay_ms)
  record[STATE], record[RUN], record[OWNER] = STATE_WAITING, '', ''
  if delay_ms then record[DUE] = now_ms + delay_ms end
  enter(id, record)
end
