-- The record of a task is one string: an array in MessagePack. Its positions are those of record-layout.ts.
-- include: record-positions
-- include: ledger-tally

-- Longer bodies have a separate key, so that a step that only moves a task does not carry them.
local INLINE_BYTES = LAYOUT_INLINE_BYTES
-- History is for operators: it grows with every attempt, so the oldest lines are dropped first.
local HISTORY_BYTES = 65536
local DAY_MS = 86400000

-- What a script has read, and what it will write. Everything is decided before anything is written: Redis has no
-- rollback, and an error in the middle would leave half a step behind.
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false

local function plan(...) planned[#planned + 1] = { ... } end

-- Lua's stack holds about 8000 values: a longer list is passed to a command in parts.
local SLICE = 2000
local function in_slices(list, call)
  for first = 1, #list, SLICE do call(first, math.min(first + SLICE - 1, #list)) end
end

-- Reads the records of these tasks. One that was read before is kept: it may have been changed since.
local function read(ids)
  local keys = {}
  for place, id in ipairs(ids) do keys[place] = root .. 't:' .. id end
  in_slices(keys, function(first, last)
    for place, raw in ipairs(redis.call('MGET', unpack(keys, first, last))) do
      local id = ids[first + place - 1]
      if raw and not records[id] then records[id] = cmsgpack.unpack(raw) end
    end
  end)
  return keys
end

-- A whole number as text: Lua's own conversion is faster, but rounds beyond 14 digits. The tasks of a batch share most
-- of their numbers, and a lookup is faster than a conversion.
local written = {}
local function digits(number)
  local text = written[number]
  if not text then
    text = (number < 1e14 and number > -1e14) and number .. '' or string.format('%.0f', number)
    written[number] = text
  end
  return text
end

local now_text = digits(now_ms)

local function note(record, step, rest)
  local history = record[HISTORY] .. step .. now_text .. ' ' .. digits(record[EPOCH]) .. ' ' .. (rest or '') .. '\n'
  if #history > HISTORY_BYTES then
    history = string.sub(history, string.find(history, '\n', #history - HISTORY_BYTES, true) + 1)
  end
  record[HISTORY] = history
end

-- The bytes of consecutive members. A record is an array: its bytes are those of its members, after three bytes with
-- their count.
local RECORD_HEAD = LAYOUT_RECORD_HEAD
local function pack_places(...)
  local bytes = {}
  for place = 1, select('#', ...) do bytes[place] = cmsgpack.pack((select(place, ...))) end
  return table.concat(bytes)
end

-- Values are compared and measured here, before they are written: a value of the wrong type must fail first.
local function write(id, record)
  if record[KEEP] < 0 or #(record[BODY] or '') < 0 then return end
  writes[id] = record
end

-- A message is: id, then the members NAME to BODY of a record. Every member has a value: an array with gaps would be
-- packed as a map.
local function new_record(message, seq)
  local record = {
    STATE_WAITING, 0, '', '', '',
    message[2], message[3], message[4], message[5], message[6],
    message[7], message[8], message[9], message[10],
    0, 0, 0, now_ms, seq,
    now_ms, '', 0, 0,
    0, '', 0, '', '', false, 0,
  }
  records[message[1]] = record
  created[#created + 1] = message[1]
  return record
end

-- A record packed by the caller; its body has a separate key if it is given.
local function plan_new(id, key, raw, body)
  new_pairs[#new_pairs + 1] = key
  new_pairs[#new_pairs + 1] = raw
  if body then plan('SET', root .. 'b:' .. id, body) end
  created[#created + 1] = id
end

local next_seq, last_seq = 1, 0
-- Numbers tasks in order of arrival, a block at a time.
local function take_seq(most)
  if next_seq > last_seq then
    last_seq = redis.call('INCRBY', root .. 'seq', most)
    next_seq = last_seq - most + 1
  end
  next_seq = next_seq + 1
  return next_seq - 1
end

local function count(name, by)
  counted[name] = (counted[name] or 0) + by
end

-- Failures and crashes of unfinished tasks, by name.
local function blame(record, by)
  if by == 0 then return end
  plan('ZINCRBY', root .. 'failing', by, record[NAME])
  if by < 0 then plan('ZREMRANGEBYSCORE', root .. 'failing', '-inf', 0) end
end

local function faults(record)
  local sum = record[FAILURES] + record[CRASHES]
  return (record[STATE] == STATE_DEAD and sum == 0) and 1 or sum
end

-- A follow-up is written once, and struck off by the worker that carried it out.
local function write_after(key, entry)
  plan('ZADD', root .. 'after', 'NX', now_ms, key)
  plan('HSETNX', root .. 'after-entries', key, entry)
end

local function write_all_after(after)
  for place = 1, #after, 2 do write_after(after[place], after[place + 1]) end
end

-- Without follow-ups, a body always ends with these bytes.
local NOTHING_FOLLOWS = MARK_BODY_END

-- A task that ended other than done: its error links, its chord and a waiting sender must be notified. Its bytes are
-- still there.
local function write_ended(id, record, how)
  local body, long = record[BODY], root .. 'b:' .. id
  local tail = body and string.sub(body, -#NOTHING_FOLLOWS) or redis.call('GETRANGE', long, -#NOTHING_FOLLOWS, -1)
  if tail == '' then return false end
  if tail == NOTHING_FOLLOWS and not string.find(record[OPTIONS], MARK_REPLY_TO, 1, true) then return false end
  local message = { id }
  for place = NAME, BODY do message[place - NAME + 2] = record[place] end
  message[10] = body or redis.call('GET', long)
  write_after(id .. '/ended:' .. digits(record[EPOCH]), cmsgpack.pack({ 'ended', how, record[EPOCH], message }))
  return true
end

-- When a relay had it: for people, also when the task is over.
local function path_in(options)
  local from = string.find(options, MARK_PATH, 1, true)
  local path = from and string.match(options, '^"path":"%d+%.%d+"', from)
  return path and '{' .. path .. '}' or ''
end

-- The bytes are dropped at the end: only dead tasks need them again.
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS] = '', path_in(record[OPTIONS])
  record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = 0, 0
end

-- A message whose task was cancelled before it came: only now its follow-ups are known. It replaces the tombstone
-- without a digest, so that they are notified once.
local function come_cancelled(id, record, message)
  local came = { unpack(record) }
  for place = NAME, BODY do came[place] = message[place - NAME + 2] end
  if not write_ended(id, came, 'cancelled') then return end
  came[BODY], came[OPTIONS] = '', ''
  records[id] = came
  write(id, came)
end

local function finish(id, record, state, ending, keep_ms)
  blame(record, -faults(record))
  if ending == 'cancelled' or ending == 'expired' then write_ended(id, record, ending) end
  drop_bytes(id, record)
  record[STATE], record[ENDING], record[ENDED] = state, ending, now_ms
  record[RUN], record[OWNER], record[DUE], record[SEQ] = '', '', 0, 0
  record[KEEP] = now_ms + math.max(1, keep_ms)
  count(ending, 1)
  -- A purged task has been counted as dead.
  if ending == 'purged' then return end
  tally(record[NAME], record[QUEUE], ending, 1)
  if ending == 'done' and is_slow(record[NAME], id, record[CREATED], record[ETA]) then tally(record[NAME], record[QUEUE], 'slow', 1) end
end

local function die(id, record, why, err)
  -- A task that was never begun is a message that could not be read as one, and bytes that differ from those sent have
  -- no follow-ups to trust.
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = STATE_DEAD, 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
  tally(record[NAME], record[QUEUE], 'dead', 1, record[EPOCH] == 0)
end

-- The run no longer owns the task.
local function let_go(id, record)
  local owner = record[OWNER]
  ended[owner] = ended[owner] or {}
  table.insert(ended[owner], id)
  moved[record[QUEUE]] = (moved[record[QUEUE]] or 0) - 1
  record[OWNER] = ''
end

-- For operators: the ids of the newest tasks, one per line. A list would cost as much as everything else written about
-- them.
local NEWEST_BYTES = 40000
local function note_created()
  local key = root .. 'newest'
  local length = redis.call('APPEND', key, table.concat(created, '\n') .. '\n')
  if length > 2 * NEWEST_BYTES then
    local last = redis.call('GETRANGE', key, -NEWEST_BYTES, -1)
    redis.call('SET', key, string.sub(last, string.find(last, '\n', 1, true) + 1))
  end
end

local function flush()
  for _, command in ipairs(planned) do redis.call(unpack(command)) end
  local pairs_of_keys = new_pairs
  for id, record in pairs(writes) do
    local key = root .. 't:' .. id
    if record[BODY] and #record[BODY] > INLINE_BYTES then
      redis.call('SET', root .. 'b:' .. id, record[BODY])
      record[BODY] = false
    end
    local raw = cmsgpack.pack(record)
    if record[KEEP] > 0 then
      redis.call('SET', key, raw, 'PXAT', digits(record[KEEP]))
    else
      pairs_of_keys[#pairs_of_keys + 1] = key
      pairs_of_keys[#pairs_of_keys + 1] = raw
    end
  end
  in_slices(pairs_of_keys, function(first, last) redis.call('MSET', unpack(pairs_of_keys, first, last)) end)
  for owner, ids in pairs(ended) do
    in_slices(ids, function(first, last) redis.call('HDEL', root .. 'r:' .. owner, unpack(ids, first, last)) end)
  end
  -- Below zero: a truncated append-only file lost runs that had been counted. Then no counted task is running.
  for queue, by in pairs(moved) do
    if redis.call('HINCRBY', root .. 'running', queue, by) < 0 then redis.call('HSET', root .. 'running', queue, 0) end
  end
  for name, by in pairs(counted) do redis.call('HINCRBY', root .. 'ended', name, by) end
  write_tallies()
  if #created > 0 then note_created() end
  if is_ready then redis.call('PUBLISH', root .. 'ready', '') end
end
