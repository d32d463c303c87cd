#!lua flags=allow-oom
-- Turns records that no step can read into dead letters, so that they block no other task. Called when a step was
-- refused: it checks the named tasks, the heads of the queues, tasks set aside and the runs of closed incarnations. The
-- readable part of a record stays in its letter. One whose epoch is lost never runs again, even if it is revived: its
-- fence could have been given out before.
-- keys: root
-- args: ids, queues, most
-- bound: `most` tasks of each list it checks, and of 1000 incarnations
-- returns: for each record that was isolated its id, name and queue
local root, named, queues, most = KEYS[1], cmsgpack.unpack(ARGV[1]), cmsgpack.unpack(ARGV[2]), tonumber(ARGV[3])
-- include: now
-- include: ledger-record
-- include: ledger-waiting
local MOST_WORKERS, LARGEST = 1000, 8.64e15
local NO_DIGEST, REASON, UNKNOWN = 'unreadable', 'ERR_UNDECODABLE', 'unknown'
local SHAPE = LAYOUT_RECORD_SHAPE
-- A waiting task has its urgency, its number and its id here: any other member is not ours.
local MEMBER = '^%d%x%x%x%x%x%x%x%x%x%x.'
local isolated, seen = {}, {}

local function fits(place, value)
  local kind = string.sub(SHAPE, place, place)
  if value == false and kind < 'a' or value == nil and kind == 'R' then return true end
  if string.lower(kind) ~= 'n' then return type(value) == 'string' end
  return type(value) == 'number' and value > -LARGEST and value < LARGEST
end

local function is_whole(record)
  for place = 1, #SHAPE do
    if not fits(place, record[place]) then return false end
  end
  return true
end

local function kind_at(key)
  return redis.call('TYPE', key).ok
end

local function is_text(key)
  local kind = kind_at(key)
  return kind == 'string' or kind == 'none'
end

-- Each member if it is readable, else its value in a new record.
local function salvage(id, found, raw)
  local record = {
    '', 0, '', '', '', UNKNOWN, UNKNOWN, 0, 1, NO_DIGEST, false, false, '', '', 0, 0, 0, now_ms, 0, now_ms, '', 0, 0, 0, '', 0, '', '', false, 0,
  }
  for place = 1, #SHAPE do
    if found[place] ~= nil and fits(place, found[place]) then record[place] = found[place] end
  end
  if not fits(EPOCH, found[EPOCH]) then record[DIGEST] = NO_DIGEST end
  local kind = kind_at(root .. 'b:' .. id)
  if kind == 'string' then
    record[BODY] = false
  elseif #found == 0 or not record[BODY] then
    record[BODY] = raw
  end
  if kind_at(root .. 'c:' .. id) == 'string' then
    record[CHECKPOINT_EPOCH] = math.max(1, record[CHECKPOINT_EPOCH])
  else
    record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = 0, 0
  end
  return record
end

local function join(one, other)
  for _, value in ipairs(other) do one[#one + 1] = value end
  return one
end

local workers = join(redis.call('ZRANGE', root .. 'leases', 0, MOST_WORKERS - 1), redis.call('ZRANGE', root .. 'closed', 0, MOST_WORKERS - 1))

-- If its record does not name it: only the figures of a queue depend on it.
local function only_queue()
  local queues, found = redis.call('HGETALL', root .. 'running'), {}
  for place = 1, #queues, 2 do
    if tonumber(queues[place + 1]) > 0 then found[#found + 1] = queues[place] end
  end
  return #found == 1 and found[1]
end

local function leave_everything(id, record, places)
  for _, place in ipairs(places) do plan('ZREM', place[1], place[2]) end
  leave_aside(id, record)
  for _, kind in ipairs({ 't:', 'b:', 'c:' }) do
    if not is_text(root .. kind .. id) then plan('RENAME', root .. kind .. id, root .. 'unreadable:' .. kind .. id) end
  end
  local is_running = false
  for _, worker in ipairs(workers) do
    if redis.call('HEXISTS', root .. 'r:' .. worker, id) == 1 then
      is_running = true
      plan('HDEL', root .. 'r:' .. worker, id)
    end
  end
  if not is_running then return end
  local queue = record[QUEUE] ~= UNKNOWN and record[QUEUE] or only_queue()
  if queue then moved[queue] = (moved[queue] or 0) - 1 end
end

local function isolate(id, found, raw, why)
  local record = salvage(id, found, raw)
  leave_everything(id, record, seen[id])
  record[STATE], record[ENDING], record[ENDED], record[KEEP] = STATE_DEAD, 'dead', now_ms, 0
  record[RUN], record[OWNER], record[RESULT] = '', '', false
  record[DEATHS], record[WHY] = record[DEATHS] + 1, REASON
  record[ERROR] = '{"type":"' .. REASON .. '","message":"' .. why .. '","traceback":""}'
  note(record, STEP_BURIED)
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
  tally(record[NAME], record[QUEUE], 'dead', 1, record[EPOCH] == 0)
  write(id, record)
  isolated[#isolated + 1] = { id, record[NAME], record[QUEUE] }
end

local function look(id)
  local key = root .. 't:' .. id
  local kind = kind_at(key)
  if kind == 'none' then return end
  if kind ~= 'string' then
    return isolate(id, {}, '', 'its key held a ' .. kind .. ', which is under unreadable:t: and its id now')
  end
  local raw = redis.call('GET', key)
  local is_read, record = pcall(cmsgpack.unpack, raw)
  if not is_read or type(record) ~= 'table' then return isolate(id, {}, raw, 'its record is no array') end
  if not is_whole(record) then return isolate(id, record, raw, 'its record has a value of another kind, or too few') end
  if record[STATE] == STATE_DEAD or record[STATE] == STATE_DONE or record[STATE] == STATE_CANCELLED then return end
  if not is_text(root .. 'b:' .. id) or not is_text(root .. 'c:' .. id) then
    isolate(id, record, '', 'its body or its progress was no string; what was there is under unreadable: now')
  end
end

local function see(id, set, member)
  seen[id] = seen[id] or {}
  if set then table.insert(seen[id], { set, member }) end
end

local function see_set(set, from)
  local members = redis.pcall('ZRANGE', set, 0, most - 1)
  for _, member in ipairs(members) do
    if from == 1 or string.find(member, MEMBER) then
      see(string.sub(member, from), set, member)
    else
      plan('ZREM', set, member)
      isolated[#isolated + 1] = { member, UNKNOWN, UNKNOWN }
    end
  end
end

for _, id in ipairs(named) do see(id) end
for _, queue in ipairs(queues) do
  for _, suspected in ipairs({ false, true }) do
    see_set(waiting_set(queue, suspected, false), 12)
    see_set(waiting_set(queue, suspected, true), 12)
  end
end
see_set(root .. 'aside', 1)
for _, worker in ipairs(redis.call('ZRANGE', root .. 'closed', 0, MOST_WORKERS - 1)) do
  for _, id in ipairs(redis.call('HRANDFIELD', root .. 'r:' .. worker, most)) do see(id) end
end
for id in pairs(seen) do look(id) end
flush()
return isolated
