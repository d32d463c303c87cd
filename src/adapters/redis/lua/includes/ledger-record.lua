-- The record of a task is one string: an array in MessagePack. These are its places, as redis-record.ts knows them.
local STATE, EPOCH, RUN, OWNER, SETTLED = 1, 2, 3, 4, 5
local NAME, QUEUE, PRIORITY, VERSION, DIGEST = 6, 7, 8, 9, 10
local ETA, EXPIRES, OPTIONS, BODY = 11, 12, 13, 14
local FAILURES, CRASHES, BUDGET, DUE, SEQ = 15, 16, 17, 18, 19
local CREATED, HISTORY, CHECKPOINT_EPOCH, CHECKPOINT_SEQ = 20, 21, 22, 23
local DEATHS, ENDING, ENDED, WHY, ERROR, RESULT, KEEP = 24, 25, 26, 27, 28, 29, 30

-- Longer bodies have a key of their own: a step that only moves a task need not carry them.
local INLINE_BYTES = 1024
-- History is for people: it grows with every attempt, so the oldest lines go first.
local HISTORY_BYTES = 65536
local DAY_MS = 86400000

-- What a script has read, and what it is going to write. Everything is decided before anything is written: Redis takes
-- nothing back, and an error in the middle would leave half a step behind.
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false

local function plan(...) planned[#planned + 1] = { ... } end

-- The keys of these tasks. What was read before stays as it is: it may have been changed since.
local function read(ids)
  local keys = {}
  for place, id in ipairs(ids) do keys[place] = root .. 't:' .. id end
  if #keys == 0 then return keys end
  for place, raw in ipairs(redis.call('MGET', unpack(keys))) do
    local id = ids[place]
    if raw and not records[id] then records[id] = cmsgpack.unpack(raw) end
  end
  return keys
end

-- A whole number as text: Lua's own way, which is faster, rounds what has more than 14 digits. The tasks of a batch have
-- most of their numbers in common, and writing one takes longer than finding it.
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

-- The bytes of places that follow each other. A record is an array: its bytes are those of its places, behind three that
-- say how many there are.
local RECORD_HEAD = '\220\000\030'
local function pack_places(...)
  local bytes = {}
  for place = 1, select('#', ...) do bytes[place] = cmsgpack.pack((select(place, ...))) end
  return table.concat(bytes)
end

local function write(id, record)
  writes[id] = record
end

-- A message is: id, then the places NAME to BODY of a record. Every place has a value: an array with gaps would be packed
-- as something else.
local function new_record(message, seq)
  local record = {
    'w', 0, '', '', '',
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

-- A record that was packed by the caller; its body has a key of its own where there is one here.
local function plan_new(id, key, raw, body)
  new_pairs[#new_pairs + 1] = key
  new_pairs[#new_pairs + 1] = raw
  if body then plan('SET', root .. 'b:' .. id, body) end
  created[#created + 1] = id
end

local next_seq, last_seq = 1, 0
-- Numbers tasks in the order of their arrival, a block at a time.
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

-- Failures and crashes of tasks that are not over, by name.
local function blame(record, by)
  if by == 0 then return end
  plan('ZINCRBY', root .. 'failing', by, record[NAME])
  if by < 0 then plan('ZREMRANGEBYSCORE', root .. 'failing', '-inf', 0) end
end

local function faults(record)
  local sum = record[FAILURES] + record[CRASHES]
  return (record[STATE] == 'x' and sum == 0) and 1 or sum
end

-- What must follow is written once, and struck off by whoever carried it out.
local function write_after(key, entry)
  plan('ZADD', root .. 'after', 'NX', now_ms, key)
  plan('HSETNX', root .. 'after-entries', key, entry)
end

local function write_all_after(after)
  for place = 1, #after, 2 do write_after(after[place], after[place + 1]) end
end

-- Where nothing follows a task the last bytes of its body are always these.
local NOTHING_FOLLOWS = '{"callbacks":null,"errbacks":null,"chain":null,"chord":null}]'

-- A task that ended otherwise than done: its error links, its chord and a sender who waits for an answer must hear of it.
-- Its bytes are still there.
local function write_ended(id, record, how)
  local body, long = record[BODY], root .. 'b:' .. id
  local tail = body and string.sub(body, -#NOTHING_FOLLOWS) or redis.call('GETRANGE', long, -#NOTHING_FOLLOWS, -1)
  if tail == '' then return false end
  if tail == NOTHING_FOLLOWS and not string.find(record[OPTIONS], '"replyTo":', 1, true) then return false end
  local message = { id }
  for place = NAME, BODY do message[place - NAME + 2] = record[place] end
  message[10] = body or redis.call('GET', long)
  write_after(id .. '/ended:' .. digits(record[EPOCH]), cmsgpack.pack({ 'ended', how, record[EPOCH], message }))
  return true
end

-- Bytes go with the end: only the dead need them again.
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS], record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = '', '', 0, 0
end

-- A message whose task was cancelled before it came: only now those who follow it are known. Its tombstone, which had no
-- digest, takes its place, so that this is told once.
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
end

local function die(id, record, why, err)
  -- What was never begun is a message nobody could take for a task, and bytes that are not those that were sent say
  -- nothing that anybody should follow.
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
end

-- The run that had it has it no more.
local function let_go(id, record)
  local owner = record[OWNER]
  ended[owner] = ended[owner] or {}
  table.insert(ended[owner], id)
  moved[record[QUEUE]] = (moved[record[QUEUE]] or 0) - 1
  record[OWNER] = ''
end

-- For people: the ids of the newest tasks, a line for each. A list would cost as much as all else that is written of them.
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
  if #pairs_of_keys > 0 then redis.call('MSET', unpack(pairs_of_keys)) end
  for owner, ids in pairs(ended) do redis.call('HDEL', root .. 'r:' .. owner, unpack(ids)) end
  for queue, by in pairs(moved) do redis.call('HINCRBY', root .. 'running', queue, by) end
  for name, by in pairs(counted) do redis.call('HINCRBY', root .. 'ended', name, by) end
  if #created > 0 then note_created() end
  if is_ready then redis.call('PUBLISH', root .. 'ready', '') end
end
