#!lua flags=allow-oom
-- Counts a part of a chord where Celery's workers count theirs, so that both may run parts of a header: the worker that
-- adds the last part sends the body. A part is identified by its index, however often it is counted; in a chord that Python sent
-- (without a size) by index and task, because Celery 5.2 gives all tasks of a chord that replaces a part the index of that part, and
-- tasks of some groups none. A part that failed here is not added: Celery would take the chord for complete, and it can still be revived. chord is ours: a field is
-- the index of a part, its value + (of a signed task), ~ (of any other) or - as it ended; '=' has all parts of a chord
-- that was completed here, so that this can be repeated, and '!' is there if all of them are of signed tasks of ours.
-- Parts added by Celery's workers are not. A task that Python added to a running chord (add_to_chord, which raises the
-- correction) has the index of the task that added it, and members of a group that ends a chain of the header have indexes of that
-- group (Celery has saved the shape of such a header): in these chords index and task together identify a part.
-- keys: chord, parts, correction, total, shape
-- args: index, size, value, member, keep_ms, task
-- bound: one part; with the last one all parts of its chord
-- returns: 1 open, or completed by others | 2 this part has failed | 3 and the members in their order, 1 if all are of signed tasks, and the shape or nothing | 4 and the member of a part of others that failed
local chord, parts, correction, total, shape = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local index, size, value, member, keep_ms, task = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local KEEP_COMPLETE_MS = 86400000

local function answer(members, signed)
  for _, one in ipairs(members) do
    local state = string.match(one, '^%[%d+,%s*"[^"]*",%s*"([A-Z]+)"')
    if state == 'FAILURE' or state == 'REVOKED' then return { 4, one } end
  end
  return { 3, members, signed, redis.call('GET', shape) }
end

local function task_of(one) return string.match(one, '^%[%d+,%s*("[^"]*")') end

-- A group is [own, members], a task [own, null]. What cannot be read, or is nested too deep, has none.
local function leaves(node)
  if type(node[2]) ~= 'table' then return 1 end
  local count = 0
  for _, member in ipairs(node[2]) do count = count + leaves(member) end
  return count
end

local function tasks_in(text)
  local ok, count = pcall(function() return leaves(cjson.decode(text).result) end)
  return ok and count or 0
end

local by_task = size == '' or tonumber(redis.call('GET', correction) or '0') > 0 or redis.call('EXISTS', shape) == 1
local own = index .. ' ' .. task
local before = redis.call('HGET', chord, own) or (not by_task and redis.call('HGET', chord, index))
local found = before
if not found or (found == '-' and value ~= '-') then
  redis.call('HSET', chord, by_task and own or index, value)
  redis.call('PEXPIRE', chord, keep_ms)
  found = value
end
if found == '-' then return { 2 } end
local complete = redis.call('HGET', chord, '=')
if complete then return answer(cmsgpack.unpack(complete), redis.call('HEXISTS', chord, '!')) end
-- Counted before, and the count is gone: a Celery worker has completed it.
if before and before ~= '-' and redis.call('EXISTS', total) == 0 then return { 1 } end

if size ~= '' then redis.call('SET', total, size, 'NX') end
if by_task then
  for _, one in ipairs(redis.call('ZRANGEBYSCORE', parts, index, index)) do
    if task_of(one) == task_of(member) then redis.call('ZREM', parts, one) end
  end
else
  redis.call('ZREMRANGEBYSCORE', parts, index, index)
end
redis.call('ZADD', parts, index, member)
-- Celery expires them after a day without a part; our parts may take longer than that.
redis.call('PEXPIRE', parts, keep_ms)
redis.call('PEXPIRE', total, keep_ms)
redis.call('PEXPIRE', correction, keep_ms)
redis.call('PEXPIRE', shape, keep_ms)
local wanted = tonumber(redis.call('GET', total) or '')
if not wanted then return { 1 } end
-- A worker of Python that sends the group at the end of a chain writes the size of that group over the size of the chord.
local tasks = tasks_in(redis.call('GET', shape))
if tasks > wanted then
  wanted = tasks
  redis.call('SET', total, wanted, 'PX', keep_ms)
end
wanted = wanted + tonumber(redis.call('GET', correction) or '0')
if redis.call('ZCARD', parts) < wanted then return { 1 } end
-- A Celery worker that got a part twice has added it twice.
local members, places, signed = {}, {}, 1
local listed = redis.call('ZRANGE', parts, 0, -1, 'WITHSCORES')
for at = 1, #listed, 2 do
  local place = listed[at + 1]
  local part = by_task and place .. ' ' .. (task_of(listed[at]) or '') or place
  if place == 'inf' or not places[part] then
    places[part] = true
    members[#members + 1] = listed[at]
    if redis.call('HGET', chord, place) ~= '+' then signed = 0 end
  else
    -- We did not choose which of the two it is.
    signed = 0
  end
end
if #members < wanted then return { 1 } end
redis.call('DEL', parts, correction, total)
redis.call('HSET', chord, '=', cmsgpack.pack(members))
if signed == 1 then redis.call('HSET', chord, '!', '1') end
redis.call('PEXPIRE', chord, KEEP_COMPLETE_MS)
return answer(members, signed)
