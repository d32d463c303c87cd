// Written by scripts/embed-assets.mjs from the .lua files; edit those and run npm run build.
export const LUA = {
  admissionConfirm: {
    sha: '5c7bac3dcdc67e4d30d0effcc5a3c72edfaac41e',
    text: `#!lua flags=allow-oom
local permit, task = KEYS[1], ARGV[1]
local owner = redis.call('GET', permit)
if not owner then return 0 end
if owner == '' then redis.call('SET', permit, task, 'KEEPTTL') end
return (owner == '' or owner == task) and 1 or 0`,
  },
  admissionFigures: {
    sha: 'b7f4731673dd7d3749b8cc398dc06a8cec7c3824',
    text: `#!lua flags=no-writes
local state, places, wanted = KEYS[1], KEYS[2], KEYS[3]
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local function digits(number) return string.format('%.0f', number) end
return { digits(now_us), redis.call('ZCARD', places), redis.call('ZCARD', wanted), redis.call('HGETALL', state) }`,
  },
  admissionFree: {
    sha: 'fafd8caa3fc09b98c9464adfbe915f6eec27c78a',
    text: `#!lua flags=allow-oom
local places, wanted, holders = KEYS[1], KEYS[2], cmsgpack.unpack(ARGV[1])
local gone, woken = 0, {}
for _, holder in ipairs(holders) do
  gone = gone + redis.call('ZREM', places, holder[1] .. '\\n' .. holder[2])
end
if gone > 0 then
  woken = redis.call('ZRANGE', wanted, 0, gone - 1)
  if #woken > 0 then redis.call('ZREM', wanted, unpack(woken)) end
end
return woken`,
  },
  admissionMemory: {
    sha: '16cca621663abf80fdeaf005c59d1a4741f6bf59',
    text: `#!lua flags=no-writes
local _ = KEYS[1]
return redis.call('INFO', 'memory')`,
  },
  admissionRefund: {
    sha: '2176e81605779fac42887e05ec2603d50d9a54f1',
    text: `#!lua flags=allow-oom
local state, amount, mark = KEYS[1], tonumber(ARGV[1]), ARGV[2]
if redis.call('HGET', state, 'tat') ~= mark then return 0 end
redis.call('HSET', state, 'tat', string.format('%.0f', tonumber(mark) - amount))
return 1`,
  },
  admissionReserve: {
    sha: '976336cc4f06ab59c8a7ae45e35884bde99243f5',
    text: `#!lua flags=allow-oom
local state, places, wanted = KEYS[1], KEYS[2], KEYS[3]
local limit, holders = tonumber(ARGV[1]), cmsgpack.unpack(ARGV[2])
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local function digits(number) return string.format('%.0f', number) end
local held, answers, refused = redis.call('ZCARD', places), {}, 0
for place, holder in ipairs(holders) do
  local task, member = holder[1], holder[1] .. '\\n' .. holder[2]
  if redis.call('ZSCORE', places, member) then
    answers[place] = 1
  elseif held < limit then
    redis.call('ZADD', places, digits(now_us), member)
    redis.call('ZREM', wanted, task)
    held, answers[place] = held + 1, 1
  else
    refused, answers[place] = refused + 1, 0
  end
end
redis.call('HSET', state, 'concurrency', limit)
if refused > 0 then redis.call('HINCRBY', state, 'rejected', refused) end
if redis.call('PTTL', state) < 86400000 then redis.call('PEXPIRE', state, 86400000) end
answers[#answers + 1] = redis.call('ZCARD', wanted)
return answers`,
  },
  admissionTake: {
    sha: 'edc8c053a023cccd5d2b08ce201a562ff31c6b05',
    text: `#!lua
local state = KEYS[1]
local count, interval, burst = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local limit, per_ms = ARGV[4], ARGV[5]
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local function digits(number) return string.format('%.0f', number) end
local full = now_us + burst * interval
local tat = tonumber(redis.call('HGET', state, 'tat') or 0)
if tat > full + 1000000 then tat = full end
local base = math.max(tat, now_us)
local granted = math.min(count, math.max(0, math.floor((full - base) / interval)))
if granted > 0 then tat = base + granted * interval end
redis.call('HSET', state, 'tat', digits(tat), 'interval', digits(interval), 'burst', digits(burst), 'limit', limit, 'per', per_ms)
if granted < count then redis.call('HINCRBY', state, 'rejected', count - granted) end
redis.call('PEXPIRE', state, digits(math.ceil(math.max(0, tat - now_us) / 1000) + 86400000))
local wait = 0
if granted < count then wait = math.max(tat, now_us) + interval - full end
return { granted, digits(wait), digits(tat) }`,
  },
  admissionWant: {
    sha: 'cbc68c2c2b80bb50ca76e3e578ab3f48484ef610',
    text: `#!lua flags=allow-oom
local places, wanted = KEYS[1], KEYS[2]
local limit, task = tonumber(ARGV[1]), ARGV[2]
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local function digits(number) return string.format('%.0f', number) end
if redis.call('ZCARD', places) < limit then return 1 end
redis.call('ZADD', wanted, 'NX', digits(now_us), task)
redis.call('PEXPIRE', wanted, 3600000)
return 0`,
  },
  answer: {
    sha: 'bfe5f24e7c254c918cfeb3a37f336ebd930b7186',
    text: `#!lua
local bindings, list = KEYS[1], KEYS[2]
local member, element, ttl_ms = ARGV[1], ARGV[2], ARGV[3]
if redis.call('SISMEMBER', bindings, member) == 0 then
  return 0
end
redis.call('LPUSH', list, element)
redis.call('PEXPIRE', list, ttl_ms)
return 1`,
  },
  controlConsumers: {
    sha: '82f2cca582cebc4fd1bd8ac9fc4a00151f269fbc',
    text: `#!lua flags=allow-oom
local root = KEYS[1]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local consumers, rows, draining = root .. 'consumers', root .. 'consumer', root .. 'draining'
for _, worker in ipairs(redis.call('ZRANGEBYSCORE', consumers, '-inf', '(' .. now_ms)) do
  redis.call('ZREM', consumers, worker)
  redis.call('HDEL', rows, worker)
  redis.call('SREM', draining, worker)
end
return { redis.call('HGETALL', rows), redis.call('SMEMBERS', draining) }`,
  },
  controlDrain: {
    sha: '829fffbade61b6310528fc4f697ab0bf51775d6c',
    text: `#!lua flags=allow-oom
local root, worker = KEYS[1], ARGV[1]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local until_ms = redis.call('ZSCORE', root .. 'consumers', worker)
if not until_ms or tonumber(until_ms) < now_ms then return 0 end
redis.call('SADD', root .. 'draining', worker)
return 1`,
  },
  controlLook: {
    sha: 'c1607d44793decdbef4e975e645e331952ccdcd8',
    text: `#!lua flags=allow-oom
local root = KEYS[1]
local worker, lease_ms, row = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', root .. 'consumers', now_ms + lease_ms, worker)
redis.call('HSET', root .. 'consumer', worker, row)
return { redis.call('SISMEMBER', root .. 'draining', worker), redis.call('SMEMBERS', root .. 'paused') }`,
  },
  enqueue: {
    sha: '7e0eaf38dbd8a780fa2247d90cc8ea07c7ced984',
    text: `#!lua
local counts = { tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]) }
local lists = { KEYS[1], KEYS[2], KEYS[3], KEYS[4] }
local reply, at = {}, 5
for place, list in ipairs(lists) do
  reply[place] = ''
  local last = at + counts[place] - 1
  while at <= last do
    local upto = math.min(last, at + 999)
    local pushed = redis.pcall('LPUSH', list, unpack(ARGV, at, upto))
    if type(pushed) == 'table' then reply[place] = pushed.err end
    at = upto + 1
  end
end
return reply`,
  },
  giveBack: {
    sha: '4e1da2c5ac45a727c673af2c844c25ea160a8cee',
    text: `#!lua flags=allow-oom
local function put_back(held, tags, lists, most)
  table.sort(tags)
  local returned = 0
  for index = #tags, math.max(1, #tags - most + 1), -1 do
    local value = redis.call('HGET', held, tags[index])
    if value then
      local list = lists[tonumber(string.match(tags[index], '^%d+%.%d+%.(%d)%.'))]
      local pushed = redis.pcall('RPUSH', list, value)
      if type(pushed) == 'number' then
        redis.call('HDEL', held, tags[index])
        returned = returned + 1
      end
    end
  end
  return returned
end
return put_back(KEYS[5], ARGV, { KEYS[1], KEYS[2], KEYS[3], KEYS[4] }, #ARGV)`,
  },
  idempotencyAcquire: {
    sha: '45921494684dab66dc1f4edb42c2862d35ac6385',
    text: `#!lua flags=allow-oom
local root, key, digest, task, epoch = KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local lease_ms, instead_of, instead_epoch, most = ARGV[5], ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8])
local ttl_ms = ARGV[9]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local record, held = root .. 'k:' .. key, root .. 'held'
local found = redis.call('HMGET', record, 'state', 'task', 'epoch', 'digest', 'held_at', 'origin', 'freed_by')
local state, holder, holder_epoch, held_at = found[1], found[2], tonumber(found[3]), found[5]
local is_held, is_own = state == 'held', holder == task
local is_free = is_held and found[7] == holder .. '@' .. found[3]
local takes = not state or is_free or (is_held and is_own and holder_epoch <= epoch)
  or (is_held and not is_own and holder == instead_of and holder_epoch == instead_epoch)
if takes then
  local origin = found[6] or holder or task
  redis.call('HDEL', record, 'w:' .. task, 'result', 'freed_by')
  if not is_own or is_free then held_at = now_ms end
  redis.call('HSET', record, 'state', 'held', 'task', task, 'epoch', ARGV[4], 'digest', digest, 'held_at', held_at, 'origin', origin, 'ttl', ttl_ms)
  if lease_ms == '' then
    redis.call('PERSIST', record)
    redis.call('ZADD', held, now_ms, key)
  else
    redis.call('PEXPIRE', record, lease_ms)
  end
  return { 1, origin }
end
if is_own and is_held then return { 2 } end
if not is_own and found[4] ~= digest then
  if is_held then return { 5, holder, found[3], now_ms - held_at } end
  return { 6 }
end
if not is_held then return { 3, holder, redis.call('HGET', record, 'result') } end
local asked = most
if lease_ms == '' and (redis.call('HLEN', record) < most + 7 or redis.call('HEXISTS', record, 'w:' .. task) == 1) then
  asked = redis.call('HINCRBY', record, 'w:' .. task, 1)
end
return { 4, holder, found[3], now_ms - held_at, asked }`,
  },
  idempotencyComplete: {
    sha: 'b1388d2cac1007754ae97e3a98e8c218392b14eb',
    text: `#!lua flags=allow-oom
local root, key, task, epoch, ttl_ms, result = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local function waiters_of(record)
  local waiters = {}
  for _, field in ipairs(redis.call('HKEYS', record)) do
    if string.sub(field, 1, 2) == 'w:' then waiters[#waiters + 1] = string.sub(field, 3) end
  end
  return waiters
end
local record = root .. 'k:' .. key
local found = redis.call('HMGET', record, 'state', 'task', 'epoch', 'freed_by')
if found[2] ~= task or found[3] ~= epoch or found[4] == task .. '@' .. epoch then return false end
if found[1] == 'held' then
  redis.call('HSET', record, 'state', 'done')
  if result then redis.call('HSET', record, 'result', result) end
  redis.call('PEXPIRE', record, ttl_ms)
  redis.call('ZREM', root .. 'held', key)
end
return waiters_of(record)`,
  },
  idempotencyFree: {
    sha: '69d65b62e16fb7accb92e95ffaeb153de2314707',
    text: `#!lua flags=allow-oom
local root, key, task, epoch, even_done = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'
local function waiters_of(record)
  local waiters = {}
  for _, field in ipairs(redis.call('HKEYS', record)) do
    if string.sub(field, 1, 2) == 'w:' then waiters[#waiters + 1] = string.sub(field, 3) end
  end
  return waiters
end
local record = root .. 'k:' .. key
local found = redis.call('HMGET', record, 'state', 'task', 'epoch', 'freed_by', 'ttl')
if found[2] ~= task or found[3] ~= epoch then return false end
local freed_by = task .. '@' .. epoch
if (found[1] ~= 'held' or found[4] == freed_by) and not even_done then return false end
local waiters = waiters_of(record)
local ttl_ms = found[5]
if even_done or not ttl_ms or ttl_ms == '' then
  redis.call('UNLINK', record)
else
  for _, waiter in ipairs(waiters) do redis.call('HDEL', record, 'w:' .. waiter) end
  redis.call('HSET', record, 'freed_by', freed_by)
  redis.call('PEXPIRE', record, ttl_ms)
end
redis.call('ZREM', root .. 'held', key)
return waiters`,
  },
  idempotencyRead: {
    sha: '4493ad81007df0a7f35d5299b4c4fb9b04f039cc',
    text: `#!lua flags=no-writes
local root, key = KEYS[1], ARGV[1]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local record = root .. 'k:' .. key
return { now_ms, redis.call('PTTL', record), redis.call('HGETALL', record) }`,
  },
  idempotencyRenew: {
    sha: '8288d608c44b45a930d183983c082b5b7a013932',
    text: `#!lua flags=allow-oom
local root, key, task, epoch, lease_ms = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local record = root .. 'k:' .. key
local found = redis.call('HMGET', record, 'state', 'task', 'epoch', 'freed_by')
if found[1] ~= 'held' or found[2] ~= task or found[3] ~= epoch or found[4] == task .. '@' .. epoch then return 0 end
return redis.call('PEXPIRE', record, lease_ms)`,
  },
  idempotencyReview: {
    sha: '14d0bc56998a77188b26be14cbbe1963781c65d1',
    text: `#!lua flags=allow-oom
local root, idle_ms, limit = KEYS[1], tonumber(ARGV[1]), ARGV[2]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local reviewed = {}
for _, key in ipairs(redis.call('ZRANGEBYSCORE', root .. 'held', '-inf', now_ms - idle_ms, 'LIMIT', 0, limit)) do
  local found = redis.call('HMGET', root .. 'k:' .. key, 'task', 'epoch', 'held_at')
  redis.call('ZADD', root .. 'held', now_ms, key)
  reviewed[#reviewed + 1] = { key, found[1], found[2], now_ms - found[3] }
end
return reviewed`,
  },
  ledgerAfterList: {
    sha: 'af4b1f49ab90de8c616aeea0f37a779837784219',
    text: `#!lua flags=no-writes
local root, older_than_ms, limit = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local keys = redis.call('ZRANGEBYSCORE', root .. 'after', '-inf', now_ms - older_than_ms, 'LIMIT', 0, limit)
local reply = {}
for place, entry in ipairs(#keys > 0 and redis.call('HMGET', root .. 'after-entries', unpack(keys)) or {}) do
  if entry then
    reply[#reply + 1] = keys[place]
    reply[#reply + 1] = entry
  end
end
return reply`,
  },
  ledgerAfterStrike: {
    sha: 'eaf4fc9ae2ab1caf0032f076a87d8549097dbe18',
    text: `#!lua flags=allow-oom
local root = KEYS[1]
redis.call('ZREM', root .. 'after', unpack(ARGV))
redis.call('HDEL', root .. 'after-entries', unpack(ARGV))
return 1`,
  },
  ledgerBeginFull: {
    sha: '3b61a60b0044674d33ac0b5654f2c1f370b04653',
    text: `#!lua flags=allow-oom
local root = KEYS[1]
local worker, run, limit, suspects = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local run_id, known_generation, packed_budgets = ARGV[5], tonumber(ARGV[6]), ARGV[8]
local celery_keep_ms, started, is_first = tonumber(ARGV[10]), ARGV[12], ARGV[13]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local function run_id_of_server()
  local info = redis.pcall('INFO', 'server')
  return type(info) == 'string' and string.match(info, 'run_id:(%x+)') or 'unknown'
end
local STATE, EPOCH, RUN, OWNER, SETTLED = 1, 2, 3, 4, 5
local NAME, QUEUE, PRIORITY, VERSION, DIGEST = 6, 7, 8, 9, 10
local ETA, EXPIRES, OPTIONS, BODY = 11, 12, 13, 14
local FAILURES, CRASHES, BUDGET, DUE, SEQ = 15, 16, 17, 18, 19
local CREATED, HISTORY, CHECKPOINT_EPOCH, CHECKPOINT_SEQ = 20, 21, 22, 23
local DEATHS, ENDING, ENDED, WHY, ERROR, RESULT, KEEP = 24, 25, 26, 27, 28, 29, 30
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
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
  local history = record[HISTORY] .. step .. now_text .. ' ' .. digits(record[EPOCH]) .. ' ' .. (rest or '') .. '\\n'
  if #history > HISTORY_BYTES then
    history = string.sub(history, string.find(history, '\\n', #history - HISTORY_BYTES, true) + 1)
  end
  record[HISTORY] = history
end
local RECORD_HEAD = '\\220\\000\\030'
local function pack_places(...)
  local bytes = {}
  for place = 1, select('#', ...) do bytes[place] = cmsgpack.pack((select(place, ...))) end
  return table.concat(bytes)
end
local function write(id, record)
  writes[id] = record
end
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
local function plan_new(id, key, raw, body)
  new_pairs[#new_pairs + 1] = key
  new_pairs[#new_pairs + 1] = raw
  if body then plan('SET', root .. 'b:' .. id, body) end
  created[#created + 1] = id
end
local next_seq, last_seq = 1, 0
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
local function blame(record, by)
  if by == 0 then return end
  plan('ZINCRBY', root .. 'failing', by, record[NAME])
  if by < 0 then plan('ZREMRANGEBYSCORE', root .. 'failing', '-inf', 0) end
end
local function faults(record)
  local sum = record[FAILURES] + record[CRASHES]
  return (record[STATE] == 'x' and sum == 0) and 1 or sum
end
local function write_after(key, entry)
  plan('ZADD', root .. 'after', 'NX', now_ms, key)
  plan('HSETNX', root .. 'after-entries', key, entry)
end
local function write_all_after(after)
  for place = 1, #after, 2 do write_after(after[place], after[place + 1]) end
end
local NOTHING_FOLLOWS = '{"callbacks":null,"errbacks":null,"chain":null,"chord":null}]'
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
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS], record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = '', '', 0, 0
end
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
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
end
local function let_go(id, record)
  local owner = record[OWNER]
  ended[owner] = ended[owner] or {}
  table.insert(ended[owner], id)
  moved[record[QUEUE]] = (moved[record[QUEUE]] or 0) - 1
  record[OWNER] = ''
end
local NEWEST_BYTES = 40000
local function note_created()
  local key = root .. 'newest'
  local length = redis.call('APPEND', key, table.concat(created, '\\n') .. '\\n')
  if length > 2 * NEWEST_BYTES then
    local last = redis.call('GETRANGE', key, -NEWEST_BYTES, -1)
    redis.call('SET', key, string.sub(last, string.find(last, '\\n', 1, true) + 1))
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
local function wait(id, record, delay_ms)
  record[STATE], record[RUN], record[OWNER] = 'w', '', ''
  if delay_ms then record[DUE] = now_ms + delay_ms end
  enter(id, record)
end
local iso
local function iso_json()
  if iso then return iso end
  local days, ms = math.floor(now_ms / 86400000), now_ms % 86400000
  local shifted = days + 719468
  local era = math.floor(shifted / 146097)
  local of_era = shifted - era * 146097
  local year = math.floor((of_era - math.floor(of_era / 1460) + math.floor(of_era / 36524) - math.floor(of_era / 146096)) / 365)
  local of_year = of_era - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  local from_march = math.floor((5 * of_year + 2) / 153)
  local day = of_year - math.floor((153 * from_march + 2) / 5) + 1
  local month = from_march + (from_march < 10 and 3 or -9)
  local seconds = math.floor(ms / 1000)
  iso = string.format('"%04d-%02d-%02dT%02d:%02d:%02d.%03d000+00:00"', year + era * 400 + (month <= 2 and 1 or 0), month, day,
    math.floor(seconds / 3600), math.floor(seconds / 60) % 60, seconds % 60, ms % 1000)
  return iso
end
local UNDER_WAY = { STARTED = true, RETRY = true }
local function write_celery(id, status, result, traceback)
  local key = 'celery-task-meta-' .. id
  local date = UNDER_WAY[status] and 'null' or iso_json()
  local shown = string.find(id, '^[%w-]+$') and id or string.sub(cjson.encode(id), 2, -2)
  local text = '{"status": "' .. status .. '", "result": ' .. result .. ', "traceback": ' .. traceback
    .. ', "children": [], "date_done": ' .. date .. ', "task_id": "' .. shown .. '"}'
  plan('SET', key, text, 'PXAT', digits(now_ms + celery_keep_ms))
  plan('PUBLISH', key, text)
end
local function tell_celery(id, record, status, result, traceback)
  if celery_keep_ms == 0 or string.find(record[OPTIONS], '"keepResult":false', 1, true) then return end
  write_celery(id, status, result, traceback)
end
local function exception_text(kind, message, module)
  return '{"exc_type": ' .. cjson.encode(kind) .. ', "exc_message": [' .. cjson.encode(message) .. '], "exc_module": "' .. module .. '"}'
end
local function tell_celery_error(id, record, status, err)
  if celery_keep_ms == 0 then return end
  local is_read, read_error = pcall(cjson.decode, err)
  if not is_read then read_error = { type = 'Error', message = 'see the dead letter', traceback = '' } end
  local traceback = read_error.traceback ~= '' and cjson.encode(read_error.traceback) or 'null'
  tell_celery(id, record, status, exception_text(read_error.type, read_error.message, 'outlast'), traceback)
end
local function tell_celery_revoked(id, record, why)
  tell_celery(id, record, 'REVOKED', exception_text('TaskRevokedError', why, 'celery.exceptions'), 'null')
end
local BEGUN, HELD, DONE, EXPIRED, CONFLICT, BEGUN_NEW = 1, 2, 3, 4, 5, 6
local handed, running_fields, fresh = {}, {}, {}
local of_messages, of_waiting, expired = {}, {}, {}
local budgets
local meta = redis.call('HMGET', root .. 'meta', 'generation', 'run_id')
local function is_settled()
  local shown = run_id == '' and run_id_of_server() or run_id
  return meta[1] and meta[2] == shown and tonumber(meta[1]) >= known_generation
end
local function may_run(record)
  return suspects > 0 or not is_suspect(record)
end
local function hand(id, record)
  if not handed[id] then
    handed[id] = true
    if is_suspect(record) then suspects = suspects - 1 end
    return true
  end
end
local function checkpoint_of(id, record)
  return record[CHECKPOINT_EPOCH] > 0 and redis.call('GET', root .. 'c:' .. id)
end
local FINISHED = { SUCCESS = true, FAILURE = true, REVOKED = true }
local is_start_told = started ~= '' and celery_keep_ms > 0
local function tell_celery_started(id, record)
  local said = redis.call('GETRANGE', 'celery-task-meta-' .. id, 0, 40)
  if not FINISHED[string.match(said, '^{"status": "(%u+)"')] then tell_celery(id, record, 'STARTED', started, 'null') end
end
local function new_epoch()
  return tonumber(meta[1]) * 2 ^ 20 + 1
end
local function budget_of(name)
  budgets = budgets or cmsgpack.unpack(packed_budgets)
  return budgets[name] or budgets['*'] or 0
end
local function run_now(id, record)
  record[STATE], record[RUN], record[OWNER] = 'r', run, worker
  record[EPOCH] = math.max(record[EPOCH] + 1, new_epoch())
  record[BUDGET] = budget_of(record[NAME])
  note(record, 'b', worker)
  running_fields[#running_fields + 1] = id
  running_fields[#running_fields + 1] = digits(record[EPOCH]) .. ' ' .. run
  moved[record[QUEUE]] = (moved[record[QUEUE]] or 0) + 1
  if is_start_told then tell_celery_started(id, record) end
  write(id, record)
end
local function expire(id, record)
  tell_celery_revoked(id, record, 'expired')
  note(record, 'e')
  finish(id, record, 'c', 'expired', DAY_MS)
  write(id, record)
end
local function is_over(record)
  return record[EXPIRES] and record[EXPIRES] <= now_ms
end
local function is_mine(record)
  return record[STATE] == 'r' and record[OWNER] == worker and record[RUN] == run
end
local function hand_message(place, id, record)
  if hand(id, record) then
    of_messages[#of_messages + 1] = {
      place, record[EPOCH], record[FAILURES], record[CRASHES], is_suspect(record) and 1 or 0,
      record[CHECKPOINT_SEQ], checkpoint_of(id, record),
    }
  end
  return BEGUN
end
local function hand_waiting(id, record)
  if hand(id, record) then
    local body = record[BODY] == false and redis.call('GET', root .. 'b:' .. id)
    of_waiting[#of_waiting + 1] = { id, cmsgpack.pack(record), body, checkpoint_of(id, record) }
  end
end
local kinds, ids, keys, kind_of, parts_of, expires_of, body_of
local function read_parts(place)
  return cmsgpack.unpack('\\149' .. parts_of[place])
end
local function read_message(place)
  local message = { ids[place] }
  for _, part in ipairs(cmsgpack.unpack('\\148' .. kinds[kind_of[place]][3])) do message[#message + 1] = part end
  for _, part in ipairs(read_parts(place)) do message[#message + 1] = part end
  message[10] = message[10] or body_of[place]
  return message
end
local function answer_known(place, id, record)
  if record[DIGEST] == '' then
    come_cancelled(id, record, read_message(place))
    return HELD
  end
  if record[DIGEST] ~= read_parts(place)[1] then return CONFLICT end
  if is_mine(record) then return hand_message(place, id, record) end
  if record[STATE] == 'd' then return DONE end
  if record[ENDING] == 'expired' then return EXPIRED end
  if record[STATE] ~= 'w' then return HELD end
  if is_over(record) then
    leave(id, record)
    expire(id, record)
    return EXPIRED
  end
  if record[DUE] > now_ms or not may_run(record) then return HELD end
  leave(id, record)
  run_now(id, record)
  return hand_message(place, id, record)
end
local packed
local function pack_around()
  local line = 'b' .. now_text .. ' ' .. digits(new_epoch()) .. ' ' .. worker .. '\\n'
  packed = {
    head = RECORD_HEAD .. pack_places('r', new_epoch(), run, worker, ''),
    tail = pack_places(now_ms, line, 0, 0, 0, '', 0, '', '', false, 0),
    running = digits(new_epoch()) .. ' ' .. run,
    heads = {},
    budgets = {},
  }
end
local function pack_kind(kind)
  local name, _, places = unpack(kinds[kind])
  packed.heads[kind] = packed.head .. places
  packed.budgets[kind] = pack_places(0, 0, budget_of(name), now_ms)
end
local function begin_new(place, id)
  local kind = kind_of[place]
  if not packed then pack_around() end
  if not packed.heads[kind] then pack_kind(kind) end
  plan_new(id, keys[place], packed.heads[kind] .. parts_of[place] .. packed.budgets[kind] .. cmsgpack.pack(take_seq(#ids)) .. packed.tail,
    body_of[place])
  running_fields[#running_fields + 1] = id
  running_fields[#running_fields + 1] = packed.running
  local queue = kinds[kind][2]
  moved[queue] = (moved[queue] or 0) + 1
  fresh[id] = place
  if is_start_told then tell_celery_started(id, { [OPTIONS] = read_parts(place)[4] }) end
  return BEGUN_NEW
end
local function answer(place)
  local id = ids[place]
  local record = records[id]
  if record then return answer_known(place, id, record) end
  if fresh[id] then return read_parts(fresh[id])[1] == read_parts(place)[1] and BEGUN or CONFLICT end
  local expires = expires_of[place]
  if not expires or expires > now_ms then return begin_new(place, id) end
  expire(id, new_record(read_message(place), take_seq(#ids)))
  return EXPIRED
end
local function take_again()
  local taken = {}
  for _, value in ipairs(redis.call('HVALS', root .. 'r:' .. worker)) do
    if string.sub(value, -#run - 1) == ' ' .. run then
      local all = redis.call('HGETALL', root .. 'r:' .. worker)
      for place = 1, #all, 2 do
        if string.sub(all[place + 1], -#run - 1) == ' ' .. run then taken[#taken + 1] = all[place] end
      end
      break
    end
  end
  if #taken == 0 then return false end
  read(taken)
  local is_message = {}
  for _, id in ipairs(ids) do is_message[id] = true end
  for _, id in ipairs(taken) do
    local record = records[id]
    if record and is_mine(record) and not is_message[id] then hand_waiting(id, record) end
  end
  return true
end
local function promote(queue, suspected)
  local later, ready = waiting_set(queue, suspected, true), waiting_set(queue, suspected, false)
  local due = redis.call('ZRANGEBYSCORE', later, '-inf', now_ms, 'WITHSCORES', 'LIMIT', 0, 1000)
  if #due == 0 then return end
  local adding, removing = {}, {}
  for place = 1, #due, 2 do
    adding[place] = digits(tonumber(string.sub(due[place], 1, 1)) * URGENCY + due[place + 1])
    adding[place + 1] = due[place]
    removing[#removing + 1] = due[place]
  end
  redis.call('ZADD', ready, unpack(adding))
  redis.call('ZREM', later, unpack(removing))
end
local function hand_out(queue, suspected, most)
  promote(queue, suspected)
  local set, given, from = waiting_set(queue, suspected, false), 0, 0
  while given < most do
    local members = redis.call('ZRANGE', set, from, from + most - given - 1)
    if #members == 0 then return given end
    from = from + #members
    local ids = {}
    for place, member in ipairs(members) do ids[place] = string.sub(member, 12) end
    read(ids)
    plan('ZREM', set, unpack(members))
    for _, id in ipairs(ids) do
      local record = records[id]
      if record and record[STATE] == 'w' and is_over(record) then
        expired[#expired + 1] = { id, record[NAME], record[QUEUE] }
        expire(id, record)
      elseif record and record[STATE] == 'w' then
        run_now(id, record)
        hand_waiting(id, record)
        given = given + 1
      end
    end
  end
  return given
end
local function next_due(queues)
  local next
  local function look(queue, suspected)
    if redis.call('EXISTS', waiting_set(queue, suspected, false)) == 1 then next = 0 end
    local first = redis.call('ZRANGE', waiting_set(queue, suspected, true), 0, 0, 'WITHSCORES')
    if #first > 0 then next = math.min(next or math.huge, math.max(0, first[2] - now_ms)) end
  end
  for _, queue in ipairs(queues) do
    look(queue, false)
    if suspects > 0 then look(queue, true) end
  end
  return next
end
local function let_elements_go(answers, tags, held_keys)
  for _, pair in ipairs(held_keys) do
    local going = {}
    for place, tag in ipairs(tags) do
      if kinds[kind_of[place]][2] == pair[1] and answers[place] ~= CONFLICT then going[#going + 1] = tag end
    end
    if #going > 0 then plan('HDEL', pair[2], unpack(going)) end
  end
end
local function begin(queues, messages, held_keys)
  if not redis.call('ZSCORE', root .. 'leases', worker) then return { 'closed' } end
  if not is_settled() then return { 'unsettled' } end
  local tags
  kinds, ids, kind_of, parts_of, expires_of, body_of, tags = unpack(messages)
  local answers = {}
  local is_repeat = is_first == '' and take_again()
  keys = read(ids)
  for place in ipairs(ids) do answers[place] = answer(place) end
  if not is_repeat then
    local left = limit
    for _, queue in ipairs(queues) do
      if left > 0 and suspects > 0 then left = left - hand_out(queue, true, math.min(left, suspects)) end
      if left > 0 then left = left - hand_out(queue, false, left) end
    end
  end
  let_elements_go(answers, tags, held_keys)
  if #running_fields > 0 then plan('HSET', root .. 'r:' .. worker, unpack(running_fields)) end
  flush()
  local next = #running_fields + #of_messages == 0 and next_due(queues) or false
  return { 'open', answers, of_messages, of_waiting, expired, next, new_epoch(), now_ms }
end
return begin(cmsgpack.unpack(ARGV[7]), cmsgpack.unpack(ARGV[9]), cmsgpack.unpack(ARGV[11]))`,
  },
  ledgerBegin: {
    sha: 'e63f1b4d2b8f2e0f851b24eb23d61fece78f5a3b',
    text: `#!lua
local root = KEYS[1]
local worker, run, limit, suspects = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local run_id, known_generation, packed_budgets = ARGV[5], tonumber(ARGV[6]), ARGV[8]
local celery_keep_ms, started, is_first = tonumber(ARGV[10]), ARGV[12], ARGV[13]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local function run_id_of_server()
  local info = redis.pcall('INFO', 'server')
  return type(info) == 'string' and string.match(info, 'run_id:(%x+)') or 'unknown'
end
local STATE, EPOCH, RUN, OWNER, SETTLED = 1, 2, 3, 4, 5
local NAME, QUEUE, PRIORITY, VERSION, DIGEST = 6, 7, 8, 9, 10
local ETA, EXPIRES, OPTIONS, BODY = 11, 12, 13, 14
local FAILURES, CRASHES, BUDGET, DUE, SEQ = 15, 16, 17, 18, 19
local CREATED, HISTORY, CHECKPOINT_EPOCH, CHECKPOINT_SEQ = 20, 21, 22, 23
local DEATHS, ENDING, ENDED, WHY, ERROR, RESULT, KEEP = 24, 25, 26, 27, 28, 29, 30
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
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
  local history = record[HISTORY] .. step .. now_text .. ' ' .. digits(record[EPOCH]) .. ' ' .. (rest or '') .. '\\n'
  if #history > HISTORY_BYTES then
    history = string.sub(history, string.find(history, '\\n', #history - HISTORY_BYTES, true) + 1)
  end
  record[HISTORY] = history
end
local RECORD_HEAD = '\\220\\000\\030'
local function pack_places(...)
  local bytes = {}
  for place = 1, select('#', ...) do bytes[place] = cmsgpack.pack((select(place, ...))) end
  return table.concat(bytes)
end
local function write(id, record)
  writes[id] = record
end
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
local function plan_new(id, key, raw, body)
  new_pairs[#new_pairs + 1] = key
  new_pairs[#new_pairs + 1] = raw
  if body then plan('SET', root .. 'b:' .. id, body) end
  created[#created + 1] = id
end
local next_seq, last_seq = 1, 0
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
local function blame(record, by)
  if by == 0 then return end
  plan('ZINCRBY', root .. 'failing', by, record[NAME])
  if by < 0 then plan('ZREMRANGEBYSCORE', root .. 'failing', '-inf', 0) end
end
local function faults(record)
  local sum = record[FAILURES] + record[CRASHES]
  return (record[STATE] == 'x' and sum == 0) and 1 or sum
end
local function write_after(key, entry)
  plan('ZADD', root .. 'after', 'NX', now_ms, key)
  plan('HSETNX', root .. 'after-entries', key, entry)
end
local function write_all_after(after)
  for place = 1, #after, 2 do write_after(after[place], after[place + 1]) end
end
local NOTHING_FOLLOWS = '{"callbacks":null,"errbacks":null,"chain":null,"chord":null}]'
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
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS], record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = '', '', 0, 0
end
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
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
end
local function let_go(id, record)
  local owner = record[OWNER]
  ended[owner] = ended[owner] or {}
  table.insert(ended[owner], id)
  moved[record[QUEUE]] = (moved[record[QUEUE]] or 0) - 1
  record[OWNER] = ''
end
local NEWEST_BYTES = 40000
local function note_created()
  local key = root .. 'newest'
  local length = redis.call('APPEND', key, table.concat(created, '\\n') .. '\\n')
  if length > 2 * NEWEST_BYTES then
    local last = redis.call('GETRANGE', key, -NEWEST_BYTES, -1)
    redis.call('SET', key, string.sub(last, string.find(last, '\\n', 1, true) + 1))
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
local function wait(id, record, delay_ms)
  record[STATE], record[RUN], record[OWNER] = 'w', '', ''
  if delay_ms then record[DUE] = now_ms + delay_ms end
  enter(id, record)
end
local iso
local function iso_json()
  if iso then return iso end
  local days, ms = math.floor(now_ms / 86400000), now_ms % 86400000
  local shifted = days + 719468
  local era = math.floor(shifted / 146097)
  local of_era = shifted - era * 146097
  local year = math.floor((of_era - math.floor(of_era / 1460) + math.floor(of_era / 36524) - math.floor(of_era / 146096)) / 365)
  local of_year = of_era - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  local from_march = math.floor((5 * of_year + 2) / 153)
  local day = of_year - math.floor((153 * from_march + 2) / 5) + 1
  local month = from_march + (from_march < 10 and 3 or -9)
  local seconds = math.floor(ms / 1000)
  iso = string.format('"%04d-%02d-%02dT%02d:%02d:%02d.%03d000+00:00"', year + era * 400 + (month <= 2 and 1 or 0), month, day,
    math.floor(seconds / 3600), math.floor(seconds / 60) % 60, seconds % 60, ms % 1000)
  return iso
end
local UNDER_WAY = { STARTED = true, RETRY = true }
local function write_celery(id, status, result, traceback)
  local key = 'celery-task-meta-' .. id
  local date = UNDER_WAY[status] and 'null' or iso_json()
  local shown = string.find(id, '^[%w-]+$') and id or string.sub(cjson.encode(id), 2, -2)
  local text = '{"status": "' .. status .. '", "result": ' .. result .. ', "traceback": ' .. traceback
    .. ', "children": [], "date_done": ' .. date .. ', "task_id": "' .. shown .. '"}'
  plan('SET', key, text, 'PXAT', digits(now_ms + celery_keep_ms))
  plan('PUBLISH', key, text)
end
local function tell_celery(id, record, status, result, traceback)
  if celery_keep_ms == 0 or string.find(record[OPTIONS], '"keepResult":false', 1, true) then return end
  write_celery(id, status, result, traceback)
end
local function exception_text(kind, message, module)
  return '{"exc_type": ' .. cjson.encode(kind) .. ', "exc_message": [' .. cjson.encode(message) .. '], "exc_module": "' .. module .. '"}'
end
local function tell_celery_error(id, record, status, err)
  if celery_keep_ms == 0 then return end
  local is_read, read_error = pcall(cjson.decode, err)
  if not is_read then read_error = { type = 'Error', message = 'see the dead letter', traceback = '' } end
  local traceback = read_error.traceback ~= '' and cjson.encode(read_error.traceback) or 'null'
  tell_celery(id, record, status, exception_text(read_error.type, read_error.message, 'outlast'), traceback)
end
local function tell_celery_revoked(id, record, why)
  tell_celery(id, record, 'REVOKED', exception_text('TaskRevokedError', why, 'celery.exceptions'), 'null')
end
local BEGUN, HELD, DONE, EXPIRED, CONFLICT, BEGUN_NEW = 1, 2, 3, 4, 5, 6
local handed, running_fields, fresh = {}, {}, {}
local of_messages, of_waiting, expired = {}, {}, {}
local budgets
local meta = redis.call('HMGET', root .. 'meta', 'generation', 'run_id')
local function is_settled()
  local shown = run_id == '' and run_id_of_server() or run_id
  return meta[1] and meta[2] == shown and tonumber(meta[1]) >= known_generation
end
local function may_run(record)
  return suspects > 0 or not is_suspect(record)
end
local function hand(id, record)
  if not handed[id] then
    handed[id] = true
    if is_suspect(record) then suspects = suspects - 1 end
    return true
  end
end
local function checkpoint_of(id, record)
  return record[CHECKPOINT_EPOCH] > 0 and redis.call('GET', root .. 'c:' .. id)
end
local FINISHED = { SUCCESS = true, FAILURE = true, REVOKED = true }
local is_start_told = started ~= '' and celery_keep_ms > 0
local function tell_celery_started(id, record)
  local said = redis.call('GETRANGE', 'celery-task-meta-' .. id, 0, 40)
  if not FINISHED[string.match(said, '^{"status": "(%u+)"')] then tell_celery(id, record, 'STARTED', started, 'null') end
end
local function new_epoch()
  return tonumber(meta[1]) * 2 ^ 20 + 1
end
local function budget_of(name)
  budgets = budgets or cmsgpack.unpack(packed_budgets)
  return budgets[name] or budgets['*'] or 0
end
local function run_now(id, record)
  record[STATE], record[RUN], record[OWNER] = 'r', run, worker
  record[EPOCH] = math.max(record[EPOCH] + 1, new_epoch())
  record[BUDGET] = budget_of(record[NAME])
  note(record, 'b', worker)
  running_fields[#running_fields + 1] = id
  running_fields[#running_fields + 1] = digits(record[EPOCH]) .. ' ' .. run
  moved[record[QUEUE]] = (moved[record[QUEUE]] or 0) + 1
  if is_start_told then tell_celery_started(id, record) end
  write(id, record)
end
local function expire(id, record)
  tell_celery_revoked(id, record, 'expired')
  note(record, 'e')
  finish(id, record, 'c', 'expired', DAY_MS)
  write(id, record)
end
local function is_over(record)
  return record[EXPIRES] and record[EXPIRES] <= now_ms
end
local function is_mine(record)
  return record[STATE] == 'r' and record[OWNER] == worker and record[RUN] == run
end
local function hand_message(place, id, record)
  if hand(id, record) then
    of_messages[#of_messages + 1] = {
      place, record[EPOCH], record[FAILURES], record[CRASHES], is_suspect(record) and 1 or 0,
      record[CHECKPOINT_SEQ], checkpoint_of(id, record),
    }
  end
  return BEGUN
end
local function hand_waiting(id, record)
  if hand(id, record) then
    local body = record[BODY] == false and redis.call('GET', root .. 'b:' .. id)
    of_waiting[#of_waiting + 1] = { id, cmsgpack.pack(record), body, checkpoint_of(id, record) }
  end
end
local kinds, ids, keys, kind_of, parts_of, expires_of, body_of
local function read_parts(place)
  return cmsgpack.unpack('\\149' .. parts_of[place])
end
local function read_message(place)
  local message = { ids[place] }
  for _, part in ipairs(cmsgpack.unpack('\\148' .. kinds[kind_of[place]][3])) do message[#message + 1] = part end
  for _, part in ipairs(read_parts(place)) do message[#message + 1] = part end
  message[10] = message[10] or body_of[place]
  return message
end
local function answer_known(place, id, record)
  if record[DIGEST] == '' then
    come_cancelled(id, record, read_message(place))
    return HELD
  end
  if record[DIGEST] ~= read_parts(place)[1] then return CONFLICT end
  if is_mine(record) then return hand_message(place, id, record) end
  if record[STATE] == 'd' then return DONE end
  if record[ENDING] == 'expired' then return EXPIRED end
  if record[STATE] ~= 'w' then return HELD end
  if is_over(record) then
    leave(id, record)
    expire(id, record)
    return EXPIRED
  end
  if record[DUE] > now_ms or not may_run(record) then return HELD end
  leave(id, record)
  run_now(id, record)
  return hand_message(place, id, record)
end
local packed
local function pack_around()
  local line = 'b' .. now_text .. ' ' .. digits(new_epoch()) .. ' ' .. worker .. '\\n'
  packed = {
    head = RECORD_HEAD .. pack_places('r', new_epoch(), run, worker, ''),
    tail = pack_places(now_ms, line, 0, 0, 0, '', 0, '', '', false, 0),
    running = digits(new_epoch()) .. ' ' .. run,
    heads = {},
    budgets = {},
  }
end
local function pack_kind(kind)
  local name, _, places = unpack(kinds[kind])
  packed.heads[kind] = packed.head .. places
  packed.budgets[kind] = pack_places(0, 0, budget_of(name), now_ms)
end
local function begin_new(place, id)
  local kind = kind_of[place]
  if not packed then pack_around() end
  if not packed.heads[kind] then pack_kind(kind) end
  plan_new(id, keys[place], packed.heads[kind] .. parts_of[place] .. packed.budgets[kind] .. cmsgpack.pack(take_seq(#ids)) .. packed.tail,
    body_of[place])
  running_fields[#running_fields + 1] = id
  running_fields[#running_fields + 1] = packed.running
  local queue = kinds[kind][2]
  moved[queue] = (moved[queue] or 0) + 1
  fresh[id] = place
  if is_start_told then tell_celery_started(id, { [OPTIONS] = read_parts(place)[4] }) end
  return BEGUN_NEW
end
local function answer(place)
  local id = ids[place]
  local record = records[id]
  if record then return answer_known(place, id, record) end
  if fresh[id] then return read_parts(fresh[id])[1] == read_parts(place)[1] and BEGUN or CONFLICT end
  local expires = expires_of[place]
  if not expires or expires > now_ms then return begin_new(place, id) end
  expire(id, new_record(read_message(place), take_seq(#ids)))
  return EXPIRED
end
local function take_again()
  local taken = {}
  for _, value in ipairs(redis.call('HVALS', root .. 'r:' .. worker)) do
    if string.sub(value, -#run - 1) == ' ' .. run then
      local all = redis.call('HGETALL', root .. 'r:' .. worker)
      for place = 1, #all, 2 do
        if string.sub(all[place + 1], -#run - 1) == ' ' .. run then taken[#taken + 1] = all[place] end
      end
      break
    end
  end
  if #taken == 0 then return false end
  read(taken)
  local is_message = {}
  for _, id in ipairs(ids) do is_message[id] = true end
  for _, id in ipairs(taken) do
    local record = records[id]
    if record and is_mine(record) and not is_message[id] then hand_waiting(id, record) end
  end
  return true
end
local function promote(queue, suspected)
  local later, ready = waiting_set(queue, suspected, true), waiting_set(queue, suspected, false)
  local due = redis.call('ZRANGEBYSCORE', later, '-inf', now_ms, 'WITHSCORES', 'LIMIT', 0, 1000)
  if #due == 0 then return end
  local adding, removing = {}, {}
  for place = 1, #due, 2 do
    adding[place] = digits(tonumber(string.sub(due[place], 1, 1)) * URGENCY + due[place + 1])
    adding[place + 1] = due[place]
    removing[#removing + 1] = due[place]
  end
  redis.call('ZADD', ready, unpack(adding))
  redis.call('ZREM', later, unpack(removing))
end
local function hand_out(queue, suspected, most)
  promote(queue, suspected)
  local set, given, from = waiting_set(queue, suspected, false), 0, 0
  while given < most do
    local members = redis.call('ZRANGE', set, from, from + most - given - 1)
    if #members == 0 then return given end
    from = from + #members
    local ids = {}
    for place, member in ipairs(members) do ids[place] = string.sub(member, 12) end
    read(ids)
    plan('ZREM', set, unpack(members))
    for _, id in ipairs(ids) do
      local record = records[id]
      if record and record[STATE] == 'w' and is_over(record) then
        expired[#expired + 1] = { id, record[NAME], record[QUEUE] }
        expire(id, record)
      elseif record and record[STATE] == 'w' then
        run_now(id, record)
        hand_waiting(id, record)
        given = given + 1
      end
    end
  end
  return given
end
local function next_due(queues)
  local next
  local function look(queue, suspected)
    if redis.call('EXISTS', waiting_set(queue, suspected, false)) == 1 then next = 0 end
    local first = redis.call('ZRANGE', waiting_set(queue, suspected, true), 0, 0, 'WITHSCORES')
    if #first > 0 then next = math.min(next or math.huge, math.max(0, first[2] - now_ms)) end
  end
  for _, queue in ipairs(queues) do
    look(queue, false)
    if suspects > 0 then look(queue, true) end
  end
  return next
end
local function let_elements_go(answers, tags, held_keys)
  for _, pair in ipairs(held_keys) do
    local going = {}
    for place, tag in ipairs(tags) do
      if kinds[kind_of[place]][2] == pair[1] and answers[place] ~= CONFLICT then going[#going + 1] = tag end
    end
    if #going > 0 then plan('HDEL', pair[2], unpack(going)) end
  end
end
local function begin(queues, messages, held_keys)
  if not redis.call('ZSCORE', root .. 'leases', worker) then return { 'closed' } end
  if not is_settled() then return { 'unsettled' } end
  local tags
  kinds, ids, kind_of, parts_of, expires_of, body_of, tags = unpack(messages)
  local answers = {}
  local is_repeat = is_first == '' and take_again()
  keys = read(ids)
  for place in ipairs(ids) do answers[place] = answer(place) end
  if not is_repeat then
    local left = limit
    for _, queue in ipairs(queues) do
      if left > 0 and suspects > 0 then left = left - hand_out(queue, true, math.min(left, suspects)) end
      if left > 0 then left = left - hand_out(queue, false, left) end
    end
  end
  let_elements_go(answers, tags, held_keys)
  if #running_fields > 0 then plan('HSET', root .. 'r:' .. worker, unpack(running_fields)) end
  flush()
  local next = #running_fields + #of_messages == 0 and next_due(queues) or false
  return { 'open', answers, of_messages, of_waiting, expired, next, new_epoch(), now_ms }
end
return begin(cmsgpack.unpack(ARGV[7]), cmsgpack.unpack(ARGV[9]), cmsgpack.unpack(ARGV[11]))`,
  },
  ledgerBuryMessages: {
    sha: '590ee82264d70e53d75e7bb676550793a7330613',
    text: `#!lua flags=allow-oom
local root = KEYS[1]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local STATE, EPOCH, RUN, OWNER, SETTLED = 1, 2, 3, 4, 5
local NAME, QUEUE, PRIORITY, VERSION, DIGEST = 6, 7, 8, 9, 10
local ETA, EXPIRES, OPTIONS, BODY = 11, 12, 13, 14
local FAILURES, CRASHES, BUDGET, DUE, SEQ = 15, 16, 17, 18, 19
local CREATED, HISTORY, CHECKPOINT_EPOCH, CHECKPOINT_SEQ = 20, 21, 22, 23
local DEATHS, ENDING, ENDED, WHY, ERROR, RESULT, KEEP = 24, 25, 26, 27, 28, 29, 30
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
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
  local history = record[HISTORY] .. step .. now_text .. ' ' .. digits(record[EPOCH]) .. ' ' .. (rest or '') .. '\\n'
  if #history > HISTORY_BYTES then
    history = string.sub(history, string.find(history, '\\n', #history - HISTORY_BYTES, true) + 1)
  end
  record[HISTORY] = history
end
local RECORD_HEAD = '\\220\\000\\030'
local function pack_places(...)
  local bytes = {}
  for place = 1, select('#', ...) do bytes[place] = cmsgpack.pack((select(place, ...))) end
  return table.concat(bytes)
end
local function write(id, record)
  writes[id] = record
end
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
local function plan_new(id, key, raw, body)
  new_pairs[#new_pairs + 1] = key
  new_pairs[#new_pairs + 1] = raw
  if body then plan('SET', root .. 'b:' .. id, body) end
  created[#created + 1] = id
end
local next_seq, last_seq = 1, 0
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
local function blame(record, by)
  if by == 0 then return end
  plan('ZINCRBY', root .. 'failing', by, record[NAME])
  if by < 0 then plan('ZREMRANGEBYSCORE', root .. 'failing', '-inf', 0) end
end
local function faults(record)
  local sum = record[FAILURES] + record[CRASHES]
  return (record[STATE] == 'x' and sum == 0) and 1 or sum
end
local function write_after(key, entry)
  plan('ZADD', root .. 'after', 'NX', now_ms, key)
  plan('HSETNX', root .. 'after-entries', key, entry)
end
local function write_all_after(after)
  for place = 1, #after, 2 do write_after(after[place], after[place + 1]) end
end
local NOTHING_FOLLOWS = '{"callbacks":null,"errbacks":null,"chain":null,"chord":null}]'
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
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS], record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = '', '', 0, 0
end
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
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
end
local function let_go(id, record)
  local owner = record[OWNER]
  ended[owner] = ended[owner] or {}
  table.insert(ended[owner], id)
  moved[record[QUEUE]] = (moved[record[QUEUE]] or 0) - 1
  record[OWNER] = ''
end
local NEWEST_BYTES = 40000
local function note_created()
  local key = root .. 'newest'
  local length = redis.call('APPEND', key, table.concat(created, '\\n') .. '\\n')
  if length > 2 * NEWEST_BYTES then
    local last = redis.call('GETRANGE', key, -NEWEST_BYTES, -1)
    redis.call('SET', key, string.sub(last, string.find(last, '\\n', 1, true) + 1))
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
local function bury_message(message, reason, err, most)
  local id = message[1]
  local found = records[id]
  if found then return found[STATE] == 'x' and found[DIGEST] == message[6] and 1 or 2 end
  local record = new_record(message, take_seq(most))
  note(record, 'u', err)
  die(id, record, reason, err)
  write(id, record)
  return 1
end
local items, ids, statuses = cmsgpack.unpack(ARGV[1]), {}, {}
for place, item in ipairs(items) do ids[place] = item[1][1] end
read(ids)
for place, item in ipairs(items) do
  statuses[place] = bury_message(item[1], item[2], item[3], #items)
end
flush()
return statuses`,
  },
  ledgerBuryRuns: {
    sha: 'e430f83b175899fde1d588e95a2aeb0c676061f7',
    text: `#!lua flags=allow-oom
local root, celery_keep_ms = KEYS[1], tonumber(ARGV[2])
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local STATE, EPOCH, RUN, OWNER, SETTLED = 1, 2, 3, 4, 5
local NAME, QUEUE, PRIORITY, VERSION, DIGEST = 6, 7, 8, 9, 10
local ETA, EXPIRES, OPTIONS, BODY = 11, 12, 13, 14
local FAILURES, CRASHES, BUDGET, DUE, SEQ = 15, 16, 17, 18, 19
local CREATED, HISTORY, CHECKPOINT_EPOCH, CHECKPOINT_SEQ = 20, 21, 22, 23
local DEATHS, ENDING, ENDED, WHY, ERROR, RESULT, KEEP = 24, 25, 26, 27, 28, 29, 30
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
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
  local history = record[HISTORY] .. step .. now_text .. ' ' .. digits(record[EPOCH]) .. ' ' .. (rest or '') .. '\\n'
  if #history > HISTORY_BYTES then
    history = string.sub(history, string.find(history, '\\n', #history - HISTORY_BYTES, true) + 1)
  end
  record[HISTORY] = history
end
local RECORD_HEAD = '\\220\\000\\030'
local function pack_places(...)
  local bytes = {}
  for place = 1, select('#', ...) do bytes[place] = cmsgpack.pack((select(place, ...))) end
  return table.concat(bytes)
end
local function write(id, record)
  writes[id] = record
end
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
local function plan_new(id, key, raw, body)
  new_pairs[#new_pairs + 1] = key
  new_pairs[#new_pairs + 1] = raw
  if body then plan('SET', root .. 'b:' .. id, body) end
  created[#created + 1] = id
end
local next_seq, last_seq = 1, 0
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
local function blame(record, by)
  if by == 0 then return end
  plan('ZINCRBY', root .. 'failing', by, record[NAME])
  if by < 0 then plan('ZREMRANGEBYSCORE', root .. 'failing', '-inf', 0) end
end
local function faults(record)
  local sum = record[FAILURES] + record[CRASHES]
  return (record[STATE] == 'x' and sum == 0) and 1 or sum
end
local function write_after(key, entry)
  plan('ZADD', root .. 'after', 'NX', now_ms, key)
  plan('HSETNX', root .. 'after-entries', key, entry)
end
local function write_all_after(after)
  for place = 1, #after, 2 do write_after(after[place], after[place + 1]) end
end
local NOTHING_FOLLOWS = '{"callbacks":null,"errbacks":null,"chain":null,"chord":null}]'
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
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS], record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = '', '', 0, 0
end
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
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
end
local function let_go(id, record)
  local owner = record[OWNER]
  ended[owner] = ended[owner] or {}
  table.insert(ended[owner], id)
  moved[record[QUEUE]] = (moved[record[QUEUE]] or 0) - 1
  record[OWNER] = ''
end
local NEWEST_BYTES = 40000
local function note_created()
  local key = root .. 'newest'
  local length = redis.call('APPEND', key, table.concat(created, '\\n') .. '\\n')
  if length > 2 * NEWEST_BYTES then
    local last = redis.call('GETRANGE', key, -NEWEST_BYTES, -1)
    redis.call('SET', key, string.sub(last, string.find(last, '\\n', 1, true) + 1))
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
local iso
local function iso_json()
  if iso then return iso end
  local days, ms = math.floor(now_ms / 86400000), now_ms % 86400000
  local shifted = days + 719468
  local era = math.floor(shifted / 146097)
  local of_era = shifted - era * 146097
  local year = math.floor((of_era - math.floor(of_era / 1460) + math.floor(of_era / 36524) - math.floor(of_era / 146096)) / 365)
  local of_year = of_era - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  local from_march = math.floor((5 * of_year + 2) / 153)
  local day = of_year - math.floor((153 * from_march + 2) / 5) + 1
  local month = from_march + (from_march < 10 and 3 or -9)
  local seconds = math.floor(ms / 1000)
  iso = string.format('"%04d-%02d-%02dT%02d:%02d:%02d.%03d000+00:00"', year + era * 400 + (month <= 2 and 1 or 0), month, day,
    math.floor(seconds / 3600), math.floor(seconds / 60) % 60, seconds % 60, ms % 1000)
  return iso
end
local UNDER_WAY = { STARTED = true, RETRY = true }
local function write_celery(id, status, result, traceback)
  local key = 'celery-task-meta-' .. id
  local date = UNDER_WAY[status] and 'null' or iso_json()
  local shown = string.find(id, '^[%w-]+$') and id or string.sub(cjson.encode(id), 2, -2)
  local text = '{"status": "' .. status .. '", "result": ' .. result .. ', "traceback": ' .. traceback
    .. ', "children": [], "date_done": ' .. date .. ', "task_id": "' .. shown .. '"}'
  plan('SET', key, text, 'PXAT', digits(now_ms + celery_keep_ms))
  plan('PUBLISH', key, text)
end
local function tell_celery(id, record, status, result, traceback)
  if celery_keep_ms == 0 or string.find(record[OPTIONS], '"keepResult":false', 1, true) then return end
  write_celery(id, status, result, traceback)
end
local function exception_text(kind, message, module)
  return '{"exc_type": ' .. cjson.encode(kind) .. ', "exc_message": [' .. cjson.encode(message) .. '], "exc_module": "' .. module .. '"}'
end
local function tell_celery_error(id, record, status, err)
  if celery_keep_ms == 0 then return end
  local is_read, read_error = pcall(cjson.decode, err)
  if not is_read then read_error = { type = 'Error', message = 'see the dead letter', traceback = '' } end
  local traceback = read_error.traceback ~= '' and cjson.encode(read_error.traceback) or 'null'
  tell_celery(id, record, status, exception_text(read_error.type, read_error.message, 'outlast'), traceback)
end
local function tell_celery_revoked(id, record, why)
  tell_celery(id, record, 'REVOKED', exception_text('TaskRevokedError', why, 'celery.exceptions'), 'null')
end
local function settle(items, step, apply)
  local ids, statuses = {}, {}
  for place, item in ipairs(items) do ids[place] = item[1] end
  read(ids)
  for place, item in ipairs(items) do
    local id, epoch, run = item[1], item[2], item[3]
    local record = records[id]
    local mark = step .. digits(epoch) .. ' ' .. run
    if not record then
      statuses[place] = 3
    elseif record[SETTLED] == mark then
      statuses[place] = 1
    elseif record[STATE] ~= 'r' or record[EPOCH] ~= epoch or record[RUN] ~= run then
      statuses[place] = 2
    else
      record[SETTLED] = mark
      let_go(id, record)
      apply(id, record, item)
      write(id, record)
      statuses[place] = 1
    end
  end
  flush()
  return statuses
end
return settle(cmsgpack.unpack(ARGV[1]), 'u', function(id, record, item)
  tell_celery_error(id, record, 'FAILURE', item[4])
  note(record, 'u', item[4])
  die(id, record, item[5], item[4])
end)`,
  },
  ledgerCancel: {
    sha: '5e5f4407337f69d10ce832c0a332279eba1f2ac6',
    text: `#!lua flags=allow-oom
local root, id, how, celery_keep_ms = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local STATE, EPOCH, RUN, OWNER, SETTLED = 1, 2, 3, 4, 5
local NAME, QUEUE, PRIORITY, VERSION, DIGEST = 6, 7, 8, 9, 10
local ETA, EXPIRES, OPTIONS, BODY = 11, 12, 13, 14
local FAILURES, CRASHES, BUDGET, DUE, SEQ = 15, 16, 17, 18, 19
local CREATED, HISTORY, CHECKPOINT_EPOCH, CHECKPOINT_SEQ = 20, 21, 22, 23
local DEATHS, ENDING, ENDED, WHY, ERROR, RESULT, KEEP = 24, 25, 26, 27, 28, 29, 30
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
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
  local history = record[HISTORY] .. step .. now_text .. ' ' .. digits(record[EPOCH]) .. ' ' .. (rest or '') .. '\\n'
  if #history > HISTORY_BYTES then
    history = string.sub(history, string.find(history, '\\n', #history - HISTORY_BYTES, true) + 1)
  end
  record[HISTORY] = history
end
local RECORD_HEAD = '\\220\\000\\030'
local function pack_places(...)
  local bytes = {}
  for place = 1, select('#', ...) do bytes[place] = cmsgpack.pack((select(place, ...))) end
  return table.concat(bytes)
end
local function write(id, record)
  writes[id] = record
end
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
local function plan_new(id, key, raw, body)
  new_pairs[#new_pairs + 1] = key
  new_pairs[#new_pairs + 1] = raw
  if body then plan('SET', root .. 'b:' .. id, body) end
  created[#created + 1] = id
end
local next_seq, last_seq = 1, 0
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
local function blame(record, by)
  if by == 0 then return end
  plan('ZINCRBY', root .. 'failing', by, record[NAME])
  if by < 0 then plan('ZREMRANGEBYSCORE', root .. 'failing', '-inf', 0) end
end
local function faults(record)
  local sum = record[FAILURES] + record[CRASHES]
  return (record[STATE] == 'x' and sum == 0) and 1 or sum
end
local function write_after(key, entry)
  plan('ZADD', root .. 'after', 'NX', now_ms, key)
  plan('HSETNX', root .. 'after-entries', key, entry)
end
local function write_all_after(after)
  for place = 1, #after, 2 do write_after(after[place], after[place + 1]) end
end
local NOTHING_FOLLOWS = '{"callbacks":null,"errbacks":null,"chain":null,"chord":null}]'
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
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS], record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = '', '', 0, 0
end
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
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
end
local function let_go(id, record)
  local owner = record[OWNER]
  ended[owner] = ended[owner] or {}
  table.insert(ended[owner], id)
  moved[record[QUEUE]] = (moved[record[QUEUE]] or 0) - 1
  record[OWNER] = ''
end
local NEWEST_BYTES = 40000
local function note_created()
  local key = root .. 'newest'
  local length = redis.call('APPEND', key, table.concat(created, '\\n') .. '\\n')
  if length > 2 * NEWEST_BYTES then
    local last = redis.call('GETRANGE', key, -NEWEST_BYTES, -1)
    redis.call('SET', key, string.sub(last, string.find(last, '\\n', 1, true) + 1))
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
local function wait(id, record, delay_ms)
  record[STATE], record[RUN], record[OWNER] = 'w', '', ''
  if delay_ms then record[DUE] = now_ms + delay_ms end
  enter(id, record)
end
local iso
local function iso_json()
  if iso then return iso end
  local days, ms = math.floor(now_ms / 86400000), now_ms % 86400000
  local shifted = days + 719468
  local era = math.floor(shifted / 146097)
  local of_era = shifted - era * 146097
  local year = math.floor((of_era - math.floor(of_era / 1460) + math.floor(of_era / 36524) - math.floor(of_era / 146096)) / 365)
  local of_year = of_era - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  local from_march = math.floor((5 * of_year + 2) / 153)
  local day = of_year - math.floor((153 * from_march + 2) / 5) + 1
  local month = from_march + (from_march < 10 and 3 or -9)
  local seconds = math.floor(ms / 1000)
  iso = string.format('"%04d-%02d-%02dT%02d:%02d:%02d.%03d000+00:00"', year + era * 400 + (month <= 2 and 1 or 0), month, day,
    math.floor(seconds / 3600), math.floor(seconds / 60) % 60, seconds % 60, ms % 1000)
  return iso
end
local UNDER_WAY = { STARTED = true, RETRY = true }
local function write_celery(id, status, result, traceback)
  local key = 'celery-task-meta-' .. id
  local date = UNDER_WAY[status] and 'null' or iso_json()
  local shown = string.find(id, '^[%w-]+$') and id or string.sub(cjson.encode(id), 2, -2)
  local text = '{"status": "' .. status .. '", "result": ' .. result .. ', "traceback": ' .. traceback
    .. ', "children": [], "date_done": ' .. date .. ', "task_id": "' .. shown .. '"}'
  plan('SET', key, text, 'PXAT', digits(now_ms + celery_keep_ms))
  plan('PUBLISH', key, text)
end
local function tell_celery(id, record, status, result, traceback)
  if celery_keep_ms == 0 or string.find(record[OPTIONS], '"keepResult":false', 1, true) then return end
  write_celery(id, status, result, traceback)
end
local function exception_text(kind, message, module)
  return '{"exc_type": ' .. cjson.encode(kind) .. ', "exc_message": [' .. cjson.encode(message) .. '], "exc_module": "' .. module .. '"}'
end
local function tell_celery_error(id, record, status, err)
  if celery_keep_ms == 0 then return end
  local is_read, read_error = pcall(cjson.decode, err)
  if not is_read then read_error = { type = 'Error', message = 'see the dead letter', traceback = '' } end
  local traceback = read_error.traceback ~= '' and cjson.encode(read_error.traceback) or 'null'
  tell_celery(id, record, status, exception_text(read_error.type, read_error.message, 'outlast'), traceback)
end
local function tell_celery_revoked(id, record, why)
  tell_celery(id, record, 'REVOKED', exception_text('TaskRevokedError', why, 'celery.exceptions'), 'null')
end
read({ id })
local record = records[id]
if not record then
  if how == 'known' then return 3 end
  record = new_record({ id, 'unknown', '', 0, 1, '', false, false, '', '' }, 0)
elseif record[STATE] == 'c' then
  return 1
elseif record[STATE] == 'r' then
  let_go(id, record)
elseif record[STATE] == 'w' then
  leave(id, record)
else
  return 2
end
tell_celery_revoked(id, record, 'revoked')
note(record, 'c')
finish(id, record, 'c', 'cancelled', DAY_MS)
write(id, record)
if how == 'copy' and #created > 0 then created, counted = {}, {} end
flush()
return 1`,
  },
  ledgerCheckpoint: {
    sha: 'a4345678fc4fd3e4b247809654c431b228cda15a',
    text: `#!lua flags=allow-oom
local root = KEYS[1]
local id, epoch, run, seq, data = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]), ARGV[5]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local STATE, EPOCH, RUN, OWNER, SETTLED = 1, 2, 3, 4, 5
local NAME, QUEUE, PRIORITY, VERSION, DIGEST = 6, 7, 8, 9, 10
local ETA, EXPIRES, OPTIONS, BODY = 11, 12, 13, 14
local FAILURES, CRASHES, BUDGET, DUE, SEQ = 15, 16, 17, 18, 19
local CREATED, HISTORY, CHECKPOINT_EPOCH, CHECKPOINT_SEQ = 20, 21, 22, 23
local DEATHS, ENDING, ENDED, WHY, ERROR, RESULT, KEEP = 24, 25, 26, 27, 28, 29, 30
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
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
  local history = record[HISTORY] .. step .. now_text .. ' ' .. digits(record[EPOCH]) .. ' ' .. (rest or '') .. '\\n'
  if #history > HISTORY_BYTES then
    history = string.sub(history, string.find(history, '\\n', #history - HISTORY_BYTES, true) + 1)
  end
  record[HISTORY] = history
end
local RECORD_HEAD = '\\220\\000\\030'
local function pack_places(...)
  local bytes = {}
  for place = 1, select('#', ...) do bytes[place] = cmsgpack.pack((select(place, ...))) end
  return table.concat(bytes)
end
local function write(id, record)
  writes[id] = record
end
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
local function plan_new(id, key, raw, body)
  new_pairs[#new_pairs + 1] = key
  new_pairs[#new_pairs + 1] = raw
  if body then plan('SET', root .. 'b:' .. id, body) end
  created[#created + 1] = id
end
local next_seq, last_seq = 1, 0
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
local function blame(record, by)
  if by == 0 then return end
  plan('ZINCRBY', root .. 'failing', by, record[NAME])
  if by < 0 then plan('ZREMRANGEBYSCORE', root .. 'failing', '-inf', 0) end
end
local function faults(record)
  local sum = record[FAILURES] + record[CRASHES]
  return (record[STATE] == 'x' and sum == 0) and 1 or sum
end
local function write_after(key, entry)
  plan('ZADD', root .. 'after', 'NX', now_ms, key)
  plan('HSETNX', root .. 'after-entries', key, entry)
end
local function write_all_after(after)
  for place = 1, #after, 2 do write_after(after[place], after[place + 1]) end
end
local NOTHING_FOLLOWS = '{"callbacks":null,"errbacks":null,"chain":null,"chord":null}]'
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
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS], record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = '', '', 0, 0
end
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
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
end
local function let_go(id, record)
  local owner = record[OWNER]
  ended[owner] = ended[owner] or {}
  table.insert(ended[owner], id)
  moved[record[QUEUE]] = (moved[record[QUEUE]] or 0) - 1
  record[OWNER] = ''
end
local NEWEST_BYTES = 40000
local function note_created()
  local key = root .. 'newest'
  local length = redis.call('APPEND', key, table.concat(created, '\\n') .. '\\n')
  if length > 2 * NEWEST_BYTES then
    local last = redis.call('GETRANGE', key, -NEWEST_BYTES, -1)
    redis.call('SET', key, string.sub(last, string.find(last, '\\n', 1, true) + 1))
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
read({ id })
local record = records[id]
if not record then return 3 end
if record[STATE] ~= 'r' or record[EPOCH] ~= epoch or record[RUN] ~= run then return 2 end
if record[CHECKPOINT_EPOCH] == epoch and record[CHECKPOINT_SEQ] >= seq then
  local is_same = record[CHECKPOINT_SEQ] == seq and redis.call('GET', root .. 'c:' .. id) == data
  return is_same and 1 or 2
end
record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = epoch, seq
plan('SET', root .. 'c:' .. id, data)
plan('HSET', root .. 'r:' .. record[OWNER], id, '+' .. digits(epoch) .. ' ' .. run)
write(id, record)
flush()
return 1`,
  },
  ledgerCommitNew: {
    sha: 'e4c997c72ebe0a9ff93c492859fec33c9aa390a7',
    text: `#!lua flags=allow-oom
local root, celery_keep_ms = KEYS[1], tonumber(ARGV[2])
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local STATE, EPOCH, RUN, OWNER, SETTLED = 1, 2, 3, 4, 5
local NAME, QUEUE, PRIORITY, VERSION, DIGEST = 6, 7, 8, 9, 10
local ETA, EXPIRES, OPTIONS, BODY = 11, 12, 13, 14
local FAILURES, CRASHES, BUDGET, DUE, SEQ = 15, 16, 17, 18, 19
local CREATED, HISTORY, CHECKPOINT_EPOCH, CHECKPOINT_SEQ = 20, 21, 22, 23
local DEATHS, ENDING, ENDED, WHY, ERROR, RESULT, KEEP = 24, 25, 26, 27, 28, 29, 30
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
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
  local history = record[HISTORY] .. step .. now_text .. ' ' .. digits(record[EPOCH]) .. ' ' .. (rest or '') .. '\\n'
  if #history > HISTORY_BYTES then
    history = string.sub(history, string.find(history, '\\n', #history - HISTORY_BYTES, true) + 1)
  end
  record[HISTORY] = history
end
local RECORD_HEAD = '\\220\\000\\030'
local function pack_places(...)
  local bytes = {}
  for place = 1, select('#', ...) do bytes[place] = cmsgpack.pack((select(place, ...))) end
  return table.concat(bytes)
end
local function write(id, record)
  writes[id] = record
end
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
local function plan_new(id, key, raw, body)
  new_pairs[#new_pairs + 1] = key
  new_pairs[#new_pairs + 1] = raw
  if body then plan('SET', root .. 'b:' .. id, body) end
  created[#created + 1] = id
end
local next_seq, last_seq = 1, 0
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
local function blame(record, by)
  if by == 0 then return end
  plan('ZINCRBY', root .. 'failing', by, record[NAME])
  if by < 0 then plan('ZREMRANGEBYSCORE', root .. 'failing', '-inf', 0) end
end
local function faults(record)
  local sum = record[FAILURES] + record[CRASHES]
  return (record[STATE] == 'x' and sum == 0) and 1 or sum
end
local function write_after(key, entry)
  plan('ZADD', root .. 'after', 'NX', now_ms, key)
  plan('HSETNX', root .. 'after-entries', key, entry)
end
local function write_all_after(after)
  for place = 1, #after, 2 do write_after(after[place], after[place + 1]) end
end
local NOTHING_FOLLOWS = '{"callbacks":null,"errbacks":null,"chain":null,"chord":null}]'
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
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS], record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = '', '', 0, 0
end
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
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
end
local function let_go(id, record)
  local owner = record[OWNER]
  ended[owner] = ended[owner] or {}
  table.insert(ended[owner], id)
  moved[record[QUEUE]] = (moved[record[QUEUE]] or 0) - 1
  record[OWNER] = ''
end
local NEWEST_BYTES = 40000
local function note_created()
  local key = root .. 'newest'
  local length = redis.call('APPEND', key, table.concat(created, '\\n') .. '\\n')
  if length > 2 * NEWEST_BYTES then
    local last = redis.call('GETRANGE', key, -NEWEST_BYTES, -1)
    redis.call('SET', key, string.sub(last, string.find(last, '\\n', 1, true) + 1))
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
local iso
local function iso_json()
  if iso then return iso end
  local days, ms = math.floor(now_ms / 86400000), now_ms % 86400000
  local shifted = days + 719468
  local era = math.floor(shifted / 146097)
  local of_era = shifted - era * 146097
  local year = math.floor((of_era - math.floor(of_era / 1460) + math.floor(of_era / 36524) - math.floor(of_era / 146096)) / 365)
  local of_year = of_era - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  local from_march = math.floor((5 * of_year + 2) / 153)
  local day = of_year - math.floor((153 * from_march + 2) / 5) + 1
  local month = from_march + (from_march < 10 and 3 or -9)
  local seconds = math.floor(ms / 1000)
  iso = string.format('"%04d-%02d-%02dT%02d:%02d:%02d.%03d000+00:00"', year + era * 400 + (month <= 2 and 1 or 0), month, day,
    math.floor(seconds / 3600), math.floor(seconds / 60) % 60, seconds % 60, ms % 1000)
  return iso
end
local UNDER_WAY = { STARTED = true, RETRY = true }
local function write_celery(id, status, result, traceback)
  local key = 'celery-task-meta-' .. id
  local date = UNDER_WAY[status] and 'null' or iso_json()
  local shown = string.find(id, '^[%w-]+$') and id or string.sub(cjson.encode(id), 2, -2)
  local text = '{"status": "' .. status .. '", "result": ' .. result .. ', "traceback": ' .. traceback
    .. ', "children": [], "date_done": ' .. date .. ', "task_id": "' .. shown .. '"}'
  plan('SET', key, text, 'PXAT', digits(now_ms + celery_keep_ms))
  plan('PUBLISH', key, text)
end
local function tell_celery(id, record, status, result, traceback)
  if celery_keep_ms == 0 or string.find(record[OPTIONS], '"keepResult":false', 1, true) then return end
  write_celery(id, status, result, traceback)
end
local function exception_text(kind, message, module)
  return '{"exc_type": ' .. cjson.encode(kind) .. ', "exc_message": [' .. cjson.encode(message) .. '], "exc_module": "' .. module .. '"}'
end
local function tell_celery_error(id, record, status, err)
  if celery_keep_ms == 0 then return end
  local is_read, read_error = pcall(cjson.decode, err)
  if not is_read then read_error = { type = 'Error', message = 'see the dead letter', traceback = '' } end
  local traceback = read_error.traceback ~= '' and cjson.encode(read_error.traceback) or 'null'
  tell_celery(id, record, status, exception_text(read_error.type, read_error.message, 'outlast'), traceback)
end
local function tell_celery_revoked(id, record, why)
  tell_celery(id, record, 'REVOKED', exception_text('TaskRevokedError', why, 'celery.exceptions'), 'null')
end
local function around(worker, epoch, run, begun_ms, keep_ms)
  local history = 'b' .. digits(begun_ms) .. ' ' .. digits(epoch) .. ' ' .. worker .. '\\n'
    .. 'd' .. now_text .. ' ' .. digits(epoch) .. ' \\n'
  local keep = now_ms + math.max(1, keep_ms)
  return RECORD_HEAD .. pack_places('d', epoch, '', '', 'c' .. digits(epoch) .. ' ' .. run),
    pack_places(0, 0, begun_ms, history, 0, 0, 0, 'done', now_ms, '', ''), cmsgpack.pack(keep), digits(keep)
end
local statuses, is_ended = {}, {}
for _, batch in ipairs(cmsgpack.unpack(ARGV[1])) do
  local worker, epoch, run, begun_ms, keep_ms, kinds, ids, kind_of, parts_of, results, after, untold = unpack(batch)
  local noted = digits(epoch) .. ' ' .. run
  local found = redis.call('HMGET', root .. 'r:' .. worker, unpack(ids))
  local head, middle, tail, keep = around(worker, epoch, run, begun_ms, keep_ms)
  local heads, tails = {}, {}
  for number, kind in ipairs(kinds) do
    heads[number], tails[number] = head .. kind[2], kind[3] .. middle
  end
  local done = ended[worker] or {}
  for place, id in ipairs(ids) do
    local is_ours = found[place] == noted and not is_ended[id]
    statuses[#statuses + 1] = is_ours and 1 or 0
    if is_ours then
      is_ended[id] = true
      done[#done + 1] = id
      local kind, result = kind_of[place], results[place]
      local queue = kinds[kind][1]
      moved[queue] = (moved[queue] or 0) - 1
      local kept = cmsgpack.pack(celery_keep_ms == 0 and result)
      plan('SET', root .. 't:' .. id, heads[kind] .. parts_of[place] .. tails[kind] .. kept .. tail, 'PXAT', keep)
      if celery_keep_ms > 0 and not untold[place] then write_celery(id, 'SUCCESS', result or 'null', 'null') end
      if after[place] then write_all_after(after[place]) end
    end
  end
  if #done > 0 then ended[worker] = done end
end
for _ in pairs(is_ended) do count('done', 1) end
flush()
return statuses`,
  },
  ledgerCommit: {
    sha: 'e6d7dfff46fcdaaa944577ccdc426ce4365a6697',
    text: `#!lua flags=allow-oom
local root, celery_keep_ms = KEYS[1], tonumber(ARGV[2])
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local STATE, EPOCH, RUN, OWNER, SETTLED = 1, 2, 3, 4, 5
local NAME, QUEUE, PRIORITY, VERSION, DIGEST = 6, 7, 8, 9, 10
local ETA, EXPIRES, OPTIONS, BODY = 11, 12, 13, 14
local FAILURES, CRASHES, BUDGET, DUE, SEQ = 15, 16, 17, 18, 19
local CREATED, HISTORY, CHECKPOINT_EPOCH, CHECKPOINT_SEQ = 20, 21, 22, 23
local DEATHS, ENDING, ENDED, WHY, ERROR, RESULT, KEEP = 24, 25, 26, 27, 28, 29, 30
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
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
  local history = record[HISTORY] .. step .. now_text .. ' ' .. digits(record[EPOCH]) .. ' ' .. (rest or '') .. '\\n'
  if #history > HISTORY_BYTES then
    history = string.sub(history, string.find(history, '\\n', #history - HISTORY_BYTES, true) + 1)
  end
  record[HISTORY] = history
end
local RECORD_HEAD = '\\220\\000\\030'
local function pack_places(...)
  local bytes = {}
  for place = 1, select('#', ...) do bytes[place] = cmsgpack.pack((select(place, ...))) end
  return table.concat(bytes)
end
local function write(id, record)
  writes[id] = record
end
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
local function plan_new(id, key, raw, body)
  new_pairs[#new_pairs + 1] = key
  new_pairs[#new_pairs + 1] = raw
  if body then plan('SET', root .. 'b:' .. id, body) end
  created[#created + 1] = id
end
local next_seq, last_seq = 1, 0
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
local function blame(record, by)
  if by == 0 then return end
  plan('ZINCRBY', root .. 'failing', by, record[NAME])
  if by < 0 then plan('ZREMRANGEBYSCORE', root .. 'failing', '-inf', 0) end
end
local function faults(record)
  local sum = record[FAILURES] + record[CRASHES]
  return (record[STATE] == 'x' and sum == 0) and 1 or sum
end
local function write_after(key, entry)
  plan('ZADD', root .. 'after', 'NX', now_ms, key)
  plan('HSETNX', root .. 'after-entries', key, entry)
end
local function write_all_after(after)
  for place = 1, #after, 2 do write_after(after[place], after[place + 1]) end
end
local NOTHING_FOLLOWS = '{"callbacks":null,"errbacks":null,"chain":null,"chord":null}]'
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
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS], record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = '', '', 0, 0
end
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
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
end
local function let_go(id, record)
  local owner = record[OWNER]
  ended[owner] = ended[owner] or {}
  table.insert(ended[owner], id)
  moved[record[QUEUE]] = (moved[record[QUEUE]] or 0) - 1
  record[OWNER] = ''
end
local NEWEST_BYTES = 40000
local function note_created()
  local key = root .. 'newest'
  local length = redis.call('APPEND', key, table.concat(created, '\\n') .. '\\n')
  if length > 2 * NEWEST_BYTES then
    local last = redis.call('GETRANGE', key, -NEWEST_BYTES, -1)
    redis.call('SET', key, string.sub(last, string.find(last, '\\n', 1, true) + 1))
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
local iso
local function iso_json()
  if iso then return iso end
  local days, ms = math.floor(now_ms / 86400000), now_ms % 86400000
  local shifted = days + 719468
  local era = math.floor(shifted / 146097)
  local of_era = shifted - era * 146097
  local year = math.floor((of_era - math.floor(of_era / 1460) + math.floor(of_era / 36524) - math.floor(of_era / 146096)) / 365)
  local of_year = of_era - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  local from_march = math.floor((5 * of_year + 2) / 153)
  local day = of_year - math.floor((153 * from_march + 2) / 5) + 1
  local month = from_march + (from_march < 10 and 3 or -9)
  local seconds = math.floor(ms / 1000)
  iso = string.format('"%04d-%02d-%02dT%02d:%02d:%02d.%03d000+00:00"', year + era * 400 + (month <= 2 and 1 or 0), month, day,
    math.floor(seconds / 3600), math.floor(seconds / 60) % 60, seconds % 60, ms % 1000)
  return iso
end
local UNDER_WAY = { STARTED = true, RETRY = true }
local function write_celery(id, status, result, traceback)
  local key = 'celery-task-meta-' .. id
  local date = UNDER_WAY[status] and 'null' or iso_json()
  local shown = string.find(id, '^[%w-]+$') and id or string.sub(cjson.encode(id), 2, -2)
  local text = '{"status": "' .. status .. '", "result": ' .. result .. ', "traceback": ' .. traceback
    .. ', "children": [], "date_done": ' .. date .. ', "task_id": "' .. shown .. '"}'
  plan('SET', key, text, 'PXAT', digits(now_ms + celery_keep_ms))
  plan('PUBLISH', key, text)
end
local function tell_celery(id, record, status, result, traceback)
  if celery_keep_ms == 0 or string.find(record[OPTIONS], '"keepResult":false', 1, true) then return end
  write_celery(id, status, result, traceback)
end
local function exception_text(kind, message, module)
  return '{"exc_type": ' .. cjson.encode(kind) .. ', "exc_message": [' .. cjson.encode(message) .. '], "exc_module": "' .. module .. '"}'
end
local function tell_celery_error(id, record, status, err)
  if celery_keep_ms == 0 then return end
  local is_read, read_error = pcall(cjson.decode, err)
  if not is_read then read_error = { type = 'Error', message = 'see the dead letter', traceback = '' } end
  local traceback = read_error.traceback ~= '' and cjson.encode(read_error.traceback) or 'null'
  tell_celery(id, record, status, exception_text(read_error.type, read_error.message, 'outlast'), traceback)
end
local function tell_celery_revoked(id, record, why)
  tell_celery(id, record, 'REVOKED', exception_text('TaskRevokedError', why, 'celery.exceptions'), 'null')
end
local function settle(items, step, apply)
  local ids, statuses = {}, {}
  for place, item in ipairs(items) do ids[place] = item[1] end
  read(ids)
  for place, item in ipairs(items) do
    local id, epoch, run = item[1], item[2], item[3]
    local record = records[id]
    local mark = step .. digits(epoch) .. ' ' .. run
    if not record then
      statuses[place] = 3
    elseif record[SETTLED] == mark then
      statuses[place] = 1
    elseif record[STATE] ~= 'r' or record[EPOCH] ~= epoch or record[RUN] ~= run then
      statuses[place] = 2
    else
      record[SETTLED] = mark
      let_go(id, record)
      apply(id, record, item)
      write(id, record)
      statuses[place] = 1
    end
  end
  flush()
  return statuses
end
return settle(cmsgpack.unpack(ARGV[1]), 'c', function(id, record, item)
  local ending, why, result, keep_ms, after = item[4], item[5], item[6], item[7], item[8]
  if ending == 'done' then
    tell_celery(id, record, 'SUCCESS', result or 'null', 'null')
  else
    tell_celery_revoked(id, record, 'discarded: ' .. why)
  end
  note(record, ending == 'done' and 'd' or 'i')
  finish(id, record, 'd', ending, keep_ms)
  record[WHY], record[ERROR] = why, ''
  record[RESULT] = celery_keep_ms == 0 and result
  write_all_after(after)
end)`,
  },
  ledgerCondemnExpired: {
    sha: 'e3479fab09ae98981f96f5c9619c2ea66610a924',
    text: `#!lua flags=allow-oom
local root = KEYS[1]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local function close(workers, is_unknown_too)
  local closed = {}
  for _, worker in ipairs(workers) do
    local is_open = redis.call('ZREM', root .. 'leases', worker) == 1
    if is_open then closed[#closed + 1] = worker end
    if is_open or is_unknown_too then redis.call('ZADD', root .. 'closed', 'NX', now_ms, worker) end
  end
  return { now_ms, closed }
end
return close(redis.call('ZRANGEBYSCORE', root .. 'leases', '-inf', '(' .. string.format('%.0f', now_ms)))`,
  },
  ledgerCondemnProcess: {
    sha: 'f9ed8cdd1d2496954d831204ca6812686afb48d5',
    text: `#!lua flags=allow-oom
local root, process = KEYS[1], ARGV[1]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local function close(workers, is_unknown_too)
  local closed = {}
  for _, worker in ipairs(workers) do
    local is_open = redis.call('ZREM', root .. 'leases', worker) == 1
    if is_open then closed[#closed + 1] = worker end
    if is_open or is_unknown_too then redis.call('ZADD', root .. 'closed', 'NX', now_ms, worker) end
  end
  return { now_ms, closed }
end
local theirs = {}
for _, worker in ipairs(redis.call('ZRANGE', root .. 'leases', 0, -1)) do
  local row = redis.call('HGET', root .. 'workers', worker)
  if row and cmsgpack.unpack(row)[1] == process then theirs[#theirs + 1] = worker end
end
return close(theirs)`,
  },
  ledgerCondemnWorkers: {
    sha: '0621bdd63ce5881252d6e1e1eecf0a74132ddb7f',
    text: `#!lua flags=allow-oom
local root = KEYS[1]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local function close(workers, is_unknown_too)
  local closed = {}
  for _, worker in ipairs(workers) do
    local is_open = redis.call('ZREM', root .. 'leases', worker) == 1
    if is_open then closed[#closed + 1] = worker end
    if is_open or is_unknown_too then redis.call('ZADD', root .. 'closed', 'NX', now_ms, worker) end
  end
  return { now_ms, closed }
end
return close(cmsgpack.unpack(ARGV[2]), ARGV[1] == '1')`,
  },
  ledgerFail: {
    sha: '5036a789250c54c5a02a289505cfaf4d5315f1e7',
    text: `#!lua flags=allow-oom
local root, celery_keep_ms = KEYS[1], tonumber(ARGV[2])
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local STATE, EPOCH, RUN, OWNER, SETTLED = 1, 2, 3, 4, 5
local NAME, QUEUE, PRIORITY, VERSION, DIGEST = 6, 7, 8, 9, 10
local ETA, EXPIRES, OPTIONS, BODY = 11, 12, 13, 14
local FAILURES, CRASHES, BUDGET, DUE, SEQ = 15, 16, 17, 18, 19
local CREATED, HISTORY, CHECKPOINT_EPOCH, CHECKPOINT_SEQ = 20, 21, 22, 23
local DEATHS, ENDING, ENDED, WHY, ERROR, RESULT, KEEP = 24, 25, 26, 27, 28, 29, 30
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
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
  local history = record[HISTORY] .. step .. now_text .. ' ' .. digits(record[EPOCH]) .. ' ' .. (rest or '') .. '\\n'
  if #history > HISTORY_BYTES then
    history = string.sub(history, string.find(history, '\\n', #history - HISTORY_BYTES, true) + 1)
  end
  record[HISTORY] = history
end
local RECORD_HEAD = '\\220\\000\\030'
local function pack_places(...)
  local bytes = {}
  for place = 1, select('#', ...) do bytes[place] = cmsgpack.pack((select(place, ...))) end
  return table.concat(bytes)
end
local function write(id, record)
  writes[id] = record
end
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
local function plan_new(id, key, raw, body)
  new_pairs[#new_pairs + 1] = key
  new_pairs[#new_pairs + 1] = raw
  if body then plan('SET', root .. 'b:' .. id, body) end
  created[#created + 1] = id
end
local next_seq, last_seq = 1, 0
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
local function blame(record, by)
  if by == 0 then return end
  plan('ZINCRBY', root .. 'failing', by, record[NAME])
  if by < 0 then plan('ZREMRANGEBYSCORE', root .. 'failing', '-inf', 0) end
end
local function faults(record)
  local sum = record[FAILURES] + record[CRASHES]
  return (record[STATE] == 'x' and sum == 0) and 1 or sum
end
local function write_after(key, entry)
  plan('ZADD', root .. 'after', 'NX', now_ms, key)
  plan('HSETNX', root .. 'after-entries', key, entry)
end
local function write_all_after(after)
  for place = 1, #after, 2 do write_after(after[place], after[place + 1]) end
end
local NOTHING_FOLLOWS = '{"callbacks":null,"errbacks":null,"chain":null,"chord":null}]'
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
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS], record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = '', '', 0, 0
end
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
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
end
local function let_go(id, record)
  local owner = record[OWNER]
  ended[owner] = ended[owner] or {}
  table.insert(ended[owner], id)
  moved[record[QUEUE]] = (moved[record[QUEUE]] or 0) - 1
  record[OWNER] = ''
end
local NEWEST_BYTES = 40000
local function note_created()
  local key = root .. 'newest'
  local length = redis.call('APPEND', key, table.concat(created, '\\n') .. '\\n')
  if length > 2 * NEWEST_BYTES then
    local last = redis.call('GETRANGE', key, -NEWEST_BYTES, -1)
    redis.call('SET', key, string.sub(last, string.find(last, '\\n', 1, true) + 1))
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
local iso
local function iso_json()
  if iso then return iso end
  local days, ms = math.floor(now_ms / 86400000), now_ms % 86400000
  local shifted = days + 719468
  local era = math.floor(shifted / 146097)
  local of_era = shifted - era * 146097
  local year = math.floor((of_era - math.floor(of_era / 1460) + math.floor(of_era / 36524) - math.floor(of_era / 146096)) / 365)
  local of_year = of_era - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  local from_march = math.floor((5 * of_year + 2) / 153)
  local day = of_year - math.floor((153 * from_march + 2) / 5) + 1
  local month = from_march + (from_march < 10 and 3 or -9)
  local seconds = math.floor(ms / 1000)
  iso = string.format('"%04d-%02d-%02dT%02d:%02d:%02d.%03d000+00:00"', year + era * 400 + (month <= 2 and 1 or 0), month, day,
    math.floor(seconds / 3600), math.floor(seconds / 60) % 60, seconds % 60, ms % 1000)
  return iso
end
local UNDER_WAY = { STARTED = true, RETRY = true }
local function write_celery(id, status, result, traceback)
  local key = 'celery-task-meta-' .. id
  local date = UNDER_WAY[status] and 'null' or iso_json()
  local shown = string.find(id, '^[%w-]+$') and id or string.sub(cjson.encode(id), 2, -2)
  local text = '{"status": "' .. status .. '", "result": ' .. result .. ', "traceback": ' .. traceback
    .. ', "children": [], "date_done": ' .. date .. ', "task_id": "' .. shown .. '"}'
  plan('SET', key, text, 'PXAT', digits(now_ms + celery_keep_ms))
  plan('PUBLISH', key, text)
end
local function tell_celery(id, record, status, result, traceback)
  if celery_keep_ms == 0 or string.find(record[OPTIONS], '"keepResult":false', 1, true) then return end
  write_celery(id, status, result, traceback)
end
local function exception_text(kind, message, module)
  return '{"exc_type": ' .. cjson.encode(kind) .. ', "exc_message": [' .. cjson.encode(message) .. '], "exc_module": "' .. module .. '"}'
end
local function tell_celery_error(id, record, status, err)
  if celery_keep_ms == 0 then return end
  local is_read, read_error = pcall(cjson.decode, err)
  if not is_read then read_error = { type = 'Error', message = 'see the dead letter', traceback = '' } end
  local traceback = read_error.traceback ~= '' and cjson.encode(read_error.traceback) or 'null'
  tell_celery(id, record, status, exception_text(read_error.type, read_error.message, 'outlast'), traceback)
end
local function tell_celery_revoked(id, record, why)
  tell_celery(id, record, 'REVOKED', exception_text('TaskRevokedError', why, 'celery.exceptions'), 'null')
end
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
local function wait(id, record, delay_ms)
  record[STATE], record[RUN], record[OWNER] = 'w', '', ''
  if delay_ms then record[DUE] = now_ms + delay_ms end
  enter(id, record)
end
local function settle(items, step, apply)
  local ids, statuses = {}, {}
  for place, item in ipairs(items) do ids[place] = item[1] end
  read(ids)
  for place, item in ipairs(items) do
    local id, epoch, run = item[1], item[2], item[3]
    local record = records[id]
    local mark = step .. digits(epoch) .. ' ' .. run
    if not record then
      statuses[place] = 3
    elseif record[SETTLED] == mark then
      statuses[place] = 1
    elseif record[STATE] ~= 'r' or record[EPOCH] ~= epoch or record[RUN] ~= run then
      statuses[place] = 2
    else
      record[SETTLED] = mark
      let_go(id, record)
      apply(id, record, item)
      write(id, record)
      statuses[place] = 1
    end
  end
  flush()
  return statuses
end
return settle(cmsgpack.unpack(ARGV[1]), 'f', function(id, record, item)
  local err, delay_ms, reason, is_crash = item[4], item[5], item[6], item[7]
  local counter = is_crash and CRASHES or FAILURES
  record[counter] = record[counter] + 1
  blame(record, 1)
  tell_celery_error(id, record, delay_ms and 'RETRY' or 'FAILURE', err)
  if delay_ms then
    note(record, is_crash and 'h' or 'f', err)
    wait(id, record, not is_crash and delay_ms or nil)
  else
    note(record, 'x', err)
    die(id, record, reason, err)
  end
end)`,
  },
  ledgerGeneration: {
    sha: '6f59fc3a3aa81fe0cf86deacd66e834128e3c1a0',
    text: `#!lua flags=allow-oom
local root = KEYS[1]
local new_mark, shown, generation = ARGV[1], ARGV[2], tonumber(ARGV[3])
local meta = root .. 'meta'
local function run_id_of_server()
  local info = redis.pcall('INFO', 'server')
  return type(info) == 'string' and string.match(info, 'run_id:(%x+)') or 'unknown'
end
local run_id = run_id_of_server()
redis.call('HSETNX', meta, 'mark', new_mark)
local now_shown = run_id .. '/' .. redis.call('HGET', meta, 'mark')
local stored = tonumber(redis.call('HGET', meta, 'generation') or '')
if generation and shown == now_shown then
  stored = math.max(stored or 0, generation)
  redis.call('HSET', meta, 'generation', string.format('%.0f', stored), 'run_id', run_id)
end
local is_settled = stored and redis.call('HGET', meta, 'run_id') == run_id
local stored_text = stored and string.format('%.0f', stored) or ''
return { now_shown, stored_text, is_settled and 1 or 0, tonumber(redis.call('TIME')[1]) }`,
  },
  ledgerInfo: {
    sha: '9213d4821a00169d0712e331a7239b5761e13a87',
    text: `#!lua flags=no-writes
local _ = KEYS[1]
return redis.call('INFO', 'server') .. redis.call('INFO', 'memory') .. redis.call('INFO', 'persistence')`,
  },
  ledgerJoinCeleryChord: {
    sha: 'ae2fcc583d611af0b022920dafe51c12627ca01f',
    text: `#!lua flags=allow-oom
local chord, parts, correction, total, outcome = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local index, size, value, member, failure, failure_keep_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local keep_ms = ARGV[7]
local KEEP_COMPLETE_MS = 86400000
local function tell_failure()
  if failure == '' then return end
  redis.call('SET', outcome, failure, 'PX', failure_keep_ms)
  redis.call('PUBLISH', outcome, failure)
end
local function answer(members)
  for _, one in ipairs(members) do
    local id, state = string.match(one, '^%[%d+,%s*"([^"]*)",%s*"([A-Z]+)"')
    if state == 'FAILURE' or state == 'REVOKED' then
      tell_failure()
      return { 4, id }
    end
  end
  return { 3, members }
end
local before = redis.call('HGET', chord, index)
local found = before
if not found or (found == '-' and value == '+') then
  redis.call('HSET', chord, index, value)
  redis.call('PEXPIRE', chord, keep_ms)
  found = value
end
if found == '-' then
  tell_failure()
  return { 2 }
end
local complete = redis.call('HGET', chord, '=')
if complete then return answer(cmsgpack.unpack(complete)) end
if before == '+' and redis.call('EXISTS', total) == 0 then return { 1 } end
if size ~= '' then redis.call('SET', total, size, 'NX') end
redis.call('ZREMRANGEBYSCORE', parts, index, index)
redis.call('ZADD', parts, index, member)
redis.call('PEXPIRE', parts, keep_ms)
redis.call('PEXPIRE', total, keep_ms)
redis.call('PEXPIRE', correction, keep_ms)
local wanted = tonumber(redis.call('GET', total) or '')
if not wanted then return { 1 } end
wanted = wanted + tonumber(redis.call('GET', correction) or '0')
if redis.call('ZCARD', parts) < wanted then return { 1 } end
local members, places = {}, {}
local listed = redis.call('ZRANGE', parts, 0, -1, 'WITHSCORES')
for at = 1, #listed, 2 do
  local place = listed[at + 1]
  if place == 'inf' or not places[place] then
    places[place] = true
    members[#members + 1] = listed[at]
  end
end
if #members < wanted then return { 1 } end
redis.call('DEL', parts, correction, total)
redis.call('HSET', chord, '=', cmsgpack.pack(members))
redis.call('PEXPIRE', chord, KEEP_COMPLETE_MS)
return answer(members)`,
  },
  ledgerJoinChord: {
    sha: 'f8b4f97ca1ae588d204e01914d610bb7fb0601b8',
    text: `#!lua flags=allow-oom
local chord, index, size, value, keep_ms = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local KEEP_COMPLETE_MS = 86400000
local found = redis.call('HGET', chord, index)
if not found or (found == '-' and value ~= '-') then
  redis.call('HSET', chord, index, value, 'size', ARGV[2])
  redis.call('PEXPIRE', chord, keep_ms)
  found = value
end
if found == '-' then return { 2 } end
if not size or redis.call('HLEN', chord) - 1 < size then return { 1 } end
local places, results = {}, {}
local fields = redis.call('HGETALL', chord)
for place = 1, #fields, 2 do
  if fields[place] ~= 'size' and fields[place + 1] ~= '-' then places[#places + 1] = { tonumber(fields[place]), string.sub(fields[place + 1], 2) } end
end
if #places < size then return { 1 } end
table.sort(places, function(one, other) return one[1] < other[1] end)
for place, part in ipairs(places) do results[place] = part[2] end
redis.call('PEXPIRE', chord, KEEP_COMPLETE_MS, 'LT')
return { 3, results }`,
  },
  ledgerLate: {
    sha: '25de373f6df4bbd3d3fe2586f5ea28b3c4390fa3',
    text: `#!lua flags=no-writes
local root, late_ms = KEYS[1], tonumber(ARGV[1])
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local STATE, EPOCH, RUN, OWNER, SETTLED = 1, 2, 3, 4, 5
local NAME, QUEUE, PRIORITY, VERSION, DIGEST = 6, 7, 8, 9, 10
local ETA, EXPIRES, OPTIONS, BODY = 11, 12, 13, 14
local FAILURES, CRASHES, BUDGET, DUE, SEQ = 15, 16, 17, 18, 19
local CREATED, HISTORY, CHECKPOINT_EPOCH, CHECKPOINT_SEQ = 20, 21, 22, 23
local DEATHS, ENDING, ENDED, WHY, ERROR, RESULT, KEEP = 24, 25, 26, 27, 28, 29, 30
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
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
  local history = record[HISTORY] .. step .. now_text .. ' ' .. digits(record[EPOCH]) .. ' ' .. (rest or '') .. '\\n'
  if #history > HISTORY_BYTES then
    history = string.sub(history, string.find(history, '\\n', #history - HISTORY_BYTES, true) + 1)
  end
  record[HISTORY] = history
end
local RECORD_HEAD = '\\220\\000\\030'
local function pack_places(...)
  local bytes = {}
  for place = 1, select('#', ...) do bytes[place] = cmsgpack.pack((select(place, ...))) end
  return table.concat(bytes)
end
local function write(id, record)
  writes[id] = record
end
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
local function plan_new(id, key, raw, body)
  new_pairs[#new_pairs + 1] = key
  new_pairs[#new_pairs + 1] = raw
  if body then plan('SET', root .. 'b:' .. id, body) end
  created[#created + 1] = id
end
local next_seq, last_seq = 1, 0
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
local function blame(record, by)
  if by == 0 then return end
  plan('ZINCRBY', root .. 'failing', by, record[NAME])
  if by < 0 then plan('ZREMRANGEBYSCORE', root .. 'failing', '-inf', 0) end
end
local function faults(record)
  local sum = record[FAILURES] + record[CRASHES]
  return (record[STATE] == 'x' and sum == 0) and 1 or sum
end
local function write_after(key, entry)
  plan('ZADD', root .. 'after', 'NX', now_ms, key)
  plan('HSETNX', root .. 'after-entries', key, entry)
end
local function write_all_after(after)
  for place = 1, #after, 2 do write_after(after[place], after[place + 1]) end
end
local NOTHING_FOLLOWS = '{"callbacks":null,"errbacks":null,"chain":null,"chord":null}]'
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
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS], record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = '', '', 0, 0
end
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
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
end
local function let_go(id, record)
  local owner = record[OWNER]
  ended[owner] = ended[owner] or {}
  table.insert(ended[owner], id)
  moved[record[QUEUE]] = (moved[record[QUEUE]] or 0) - 1
  record[OWNER] = ''
end
local NEWEST_BYTES = 40000
local function note_created()
  local key = root .. 'newest'
  local length = redis.call('APPEND', key, table.concat(created, '\\n') .. '\\n')
  if length > 2 * NEWEST_BYTES then
    local last = redis.call('GETRANGE', key, -NEWEST_BYTES, -1)
    redis.call('SET', key, string.sub(last, string.find(last, '\\n', 1, true) + 1))
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
local function wait(id, record, delay_ms)
  record[STATE], record[RUN], record[OWNER] = 'w', '', ''
  if delay_ms then record[DUE] = now_ms + delay_ms end
  enter(id, record)
end
local before_ms = now_ms - late_ms
local function count_late(queue, suspected)
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
return found`,
  },
  ledgerLift: {
    sha: '71f6966b66937ab9f6b57ffe7dd7c52ad695a6dd',
    text: `#!lua flags=allow-oom
local root = KEYS[1]
local id, epoch, run, above = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local STATE, EPOCH, RUN, OWNER, SETTLED = 1, 2, 3, 4, 5
local NAME, QUEUE, PRIORITY, VERSION, DIGEST = 6, 7, 8, 9, 10
local ETA, EXPIRES, OPTIONS, BODY = 11, 12, 13, 14
local FAILURES, CRASHES, BUDGET, DUE, SEQ = 15, 16, 17, 18, 19
local CREATED, HISTORY, CHECKPOINT_EPOCH, CHECKPOINT_SEQ = 20, 21, 22, 23
local DEATHS, ENDING, ENDED, WHY, ERROR, RESULT, KEEP = 24, 25, 26, 27, 28, 29, 30
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
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
  local history = record[HISTORY] .. step .. now_text .. ' ' .. digits(record[EPOCH]) .. ' ' .. (rest or '') .. '\\n'
  if #history > HISTORY_BYTES then
    history = string.sub(history, string.find(history, '\\n', #history - HISTORY_BYTES, true) + 1)
  end
  record[HISTORY] = history
end
local RECORD_HEAD = '\\220\\000\\030'
local function pack_places(...)
  local bytes = {}
  for place = 1, select('#', ...) do bytes[place] = cmsgpack.pack((select(place, ...))) end
  return table.concat(bytes)
end
local function write(id, record)
  writes[id] = record
end
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
local function plan_new(id, key, raw, body)
  new_pairs[#new_pairs + 1] = key
  new_pairs[#new_pairs + 1] = raw
  if body then plan('SET', root .. 'b:' .. id, body) end
  created[#created + 1] = id
end
local next_seq, last_seq = 1, 0
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
local function blame(record, by)
  if by == 0 then return end
  plan('ZINCRBY', root .. 'failing', by, record[NAME])
  if by < 0 then plan('ZREMRANGEBYSCORE', root .. 'failing', '-inf', 0) end
end
local function faults(record)
  local sum = record[FAILURES] + record[CRASHES]
  return (record[STATE] == 'x' and sum == 0) and 1 or sum
end
local function write_after(key, entry)
  plan('ZADD', root .. 'after', 'NX', now_ms, key)
  plan('HSETNX', root .. 'after-entries', key, entry)
end
local function write_all_after(after)
  for place = 1, #after, 2 do write_after(after[place], after[place + 1]) end
end
local NOTHING_FOLLOWS = '{"callbacks":null,"errbacks":null,"chain":null,"chord":null}]'
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
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS], record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = '', '', 0, 0
end
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
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
end
local function let_go(id, record)
  local owner = record[OWNER]
  ended[owner] = ended[owner] or {}
  table.insert(ended[owner], id)
  moved[record[QUEUE]] = (moved[record[QUEUE]] or 0) - 1
  record[OWNER] = ''
end
local NEWEST_BYTES = 40000
local function note_created()
  local key = root .. 'newest'
  local length = redis.call('APPEND', key, table.concat(created, '\\n') .. '\\n')
  if length > 2 * NEWEST_BYTES then
    local last = redis.call('GETRANGE', key, -NEWEST_BYTES, -1)
    redis.call('SET', key, string.sub(last, string.find(last, '\\n', 1, true) + 1))
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
read({ id })
local record = records[id]
if not record then return { 3 } end
if record[STATE] ~= 'r' or record[RUN] ~= run then return { 2 } end
if record[EPOCH] ~= epoch and record[EPOCH] ~= above + 1 then return { 2 } end
if record[EPOCH] <= above then
  record[EPOCH] = above + 1
  plan('HSET', root .. 'r:' .. record[OWNER], id, digits(record[EPOCH]) .. ' ' .. run)
  write(id, record)
  flush()
end
return { 1, record[EPOCH] }`,
  },
  ledgerLookCeleryChord: {
    sha: 'ff56f6b55c834adb85b2b2996a0f3940f4293574',
    text: `#!lua flags=allow-oom
local chord, parts, correction, total = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local keep_ms, abandon_after_ms = tonumber(ARGV[1]), tonumber(ARGV[2])
if redis.call('HEXISTS', chord, '=') == 1 then return {} end
local there, failed = 0, 0
for _, value in ipairs(redis.call('HVALS', chord)) do
  if value == '-' then failed = failed + 1 end
end
for _, member in ipairs(redis.call('ZRANGE', parts, 0, -1)) do
  local state = string.match(member, '^%[%d+,%s*"[^"]*",%s*"([A-Z]+)"')
  if state == 'FAILURE' or state == 'REVOKED' then failed = failed + 1 else there = there + 1 end
end
local size = tonumber(redis.call('GET', total) or '')
if not size and there + failed == 0 then return {} end
size = size and size + tonumber(redis.call('GET', correction) or '0') or -1
local left = redis.call('PTTL', chord)
if not abandon_after_ms or left < 0 or keep_ms - left < abandon_after_ms then return { 1, there, size, failed } end
redis.call('DEL', chord, parts, correction, total)
return { 2, there, size, failed }`,
  },
  ledgerLookChord: {
    sha: '12f0f846d196888325dd606882877fb5a66ccf82',
    text: `#!lua flags=allow-oom
local chord, keep_ms, abandon_after_ms = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local fields = redis.call('HGETALL', chord)
if #fields == 0 then return {} end
local parts, failed, size = 0, 0, -1
for place = 1, #fields, 2 do
  if fields[place] == 'size' then
    size = tonumber(fields[place + 1]) or -1
  elseif fields[place + 1] == '-' then
    failed = failed + 1
  else
    parts = parts + 1
  end
end
if size >= 0 and parts >= size then return {} end
if not abandon_after_ms or keep_ms - redis.call('PTTL', chord) < abandon_after_ms then return { 1, parts, size, failed } end
redis.call('DEL', chord)
return { 2, parts, size, failed }`,
  },
  ledgerNoteChord: {
    sha: 'becd733140056089f2d3955331265e039ed1a259',
    text: `#!lua flags=allow-oom
local index, group_id = KEYS[1], ARGV[1]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', index, 'NX', string.format('%.0f', now_ms), group_id)`,
  },
  ledgerNow: {
    sha: '33e389371402a432ec058aebfb619732ba962e85',
    text: `#!lua flags=no-writes
local _ = KEYS[1]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
return now_ms`,
  },
  ledgerOpen: {
    sha: 'cf20c34e8ffbe2b055516495991f6d1683ea3289',
    text: `#!lua flags=allow-oom
local root = KEYS[1]
local worker, process, host, pid, lease_ms = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local leases = root .. 'leases'
if redis.call('ZSCORE', leases, worker) or redis.call('ZSCORE', root .. 'closed', worker) then return 1 end
redis.call('HSET', root .. 'workers', worker, cmsgpack.pack({ process, host, pid, lease_ms, now_ms }))
redis.call('ZADD', leases, now_ms + lease_ms, worker)
return 1`,
  },
  ledgerPark: {
    sha: '031cdf3f386e4a624a176be4b0cdbeecaaa8738b',
    text: `#!lua
local root = KEYS[1]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local STATE, EPOCH, RUN, OWNER, SETTLED = 1, 2, 3, 4, 5
local NAME, QUEUE, PRIORITY, VERSION, DIGEST = 6, 7, 8, 9, 10
local ETA, EXPIRES, OPTIONS, BODY = 11, 12, 13, 14
local FAILURES, CRASHES, BUDGET, DUE, SEQ = 15, 16, 17, 18, 19
local CREATED, HISTORY, CHECKPOINT_EPOCH, CHECKPOINT_SEQ = 20, 21, 22, 23
local DEATHS, ENDING, ENDED, WHY, ERROR, RESULT, KEEP = 24, 25, 26, 27, 28, 29, 30
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
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
  local history = record[HISTORY] .. step .. now_text .. ' ' .. digits(record[EPOCH]) .. ' ' .. (rest or '') .. '\\n'
  if #history > HISTORY_BYTES then
    history = string.sub(history, string.find(history, '\\n', #history - HISTORY_BYTES, true) + 1)
  end
  record[HISTORY] = history
end
local RECORD_HEAD = '\\220\\000\\030'
local function pack_places(...)
  local bytes = {}
  for place = 1, select('#', ...) do bytes[place] = cmsgpack.pack((select(place, ...))) end
  return table.concat(bytes)
end
local function write(id, record)
  writes[id] = record
end
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
local function plan_new(id, key, raw, body)
  new_pairs[#new_pairs + 1] = key
  new_pairs[#new_pairs + 1] = raw
  if body then plan('SET', root .. 'b:' .. id, body) end
  created[#created + 1] = id
end
local next_seq, last_seq = 1, 0
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
local function blame(record, by)
  if by == 0 then return end
  plan('ZINCRBY', root .. 'failing', by, record[NAME])
  if by < 0 then plan('ZREMRANGEBYSCORE', root .. 'failing', '-inf', 0) end
end
local function faults(record)
  local sum = record[FAILURES] + record[CRASHES]
  return (record[STATE] == 'x' and sum == 0) and 1 or sum
end
local function write_after(key, entry)
  plan('ZADD', root .. 'after', 'NX', now_ms, key)
  plan('HSETNX', root .. 'after-entries', key, entry)
end
local function write_all_after(after)
  for place = 1, #after, 2 do write_after(after[place], after[place + 1]) end
end
local NOTHING_FOLLOWS = '{"callbacks":null,"errbacks":null,"chain":null,"chord":null}]'
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
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS], record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = '', '', 0, 0
end
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
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
end
local function let_go(id, record)
  local owner = record[OWNER]
  ended[owner] = ended[owner] or {}
  table.insert(ended[owner], id)
  moved[record[QUEUE]] = (moved[record[QUEUE]] or 0) - 1
  record[OWNER] = ''
end
local NEWEST_BYTES = 40000
local function note_created()
  local key = root .. 'newest'
  local length = redis.call('APPEND', key, table.concat(created, '\\n') .. '\\n')
  if length > 2 * NEWEST_BYTES then
    local last = redis.call('GETRANGE', key, -NEWEST_BYTES, -1)
    redis.call('SET', key, string.sub(last, string.find(last, '\\n', 1, true) + 1))
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
local function wait(id, record, delay_ms)
  record[STATE], record[RUN], record[OWNER] = 'w', '', ''
  if delay_ms then record[DUE] = now_ms + delay_ms end
  enter(id, record)
end
local function bury_message(message, reason, err, most)
  local id = message[1]
  local found = records[id]
  if found then return found[STATE] == 'x' and found[DIGEST] == message[6] and 1 or 2 end
  local record = new_record(message, take_seq(most))
  note(record, 'u', err)
  die(id, record, reason, err)
  write(id, record)
  return 1
end
local ERROR_OF_OTHER =
  '{"type":"ERR_DIGEST","message":"another task has this id with other bytes","traceback":""}'
local items, ids = cmsgpack.unpack(ARGV[1]), {}
for _, item in ipairs(items) do
  ids[#ids + 1] = item[1][1]
  ids[#ids + 1] = item[3]
end
read(ids)
for _, item in ipairs(items) do
  local message, delay_ms, other_id = item[1], item[2], item[3]
  local id = message[1]
  local found = records[id]
  if not found then
    local record = new_record(message, take_seq(#items * 2))
    note(record, 'a')
    wait(id, record, delay_ms)
    write(id, record)
  elseif found[DIGEST] == '' then
    come_cancelled(id, found, message)
  elseif found[DIGEST] ~= message[6] then
    message[1] = other_id
    bury_message(message, 'ERR_DIGEST', ERROR_OF_OTHER, #items * 2)
  end
end
flush()
return 1`,
  },
  ledgerPurge: {
    sha: '598d62332459583fdb5e75d9810ab16b6d37bf20',
    text: `#!lua flags=allow-oom
local root = KEYS[1]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local STATE, EPOCH, RUN, OWNER, SETTLED = 1, 2, 3, 4, 5
local NAME, QUEUE, PRIORITY, VERSION, DIGEST = 6, 7, 8, 9, 10
local ETA, EXPIRES, OPTIONS, BODY = 11, 12, 13, 14
local FAILURES, CRASHES, BUDGET, DUE, SEQ = 15, 16, 17, 18, 19
local CREATED, HISTORY, CHECKPOINT_EPOCH, CHECKPOINT_SEQ = 20, 21, 22, 23
local DEATHS, ENDING, ENDED, WHY, ERROR, RESULT, KEEP = 24, 25, 26, 27, 28, 29, 30
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
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
  local history = record[HISTORY] .. step .. now_text .. ' ' .. digits(record[EPOCH]) .. ' ' .. (rest or '') .. '\\n'
  if #history > HISTORY_BYTES then
    history = string.sub(history, string.find(history, '\\n', #history - HISTORY_BYTES, true) + 1)
  end
  record[HISTORY] = history
end
local RECORD_HEAD = '\\220\\000\\030'
local function pack_places(...)
  local bytes = {}
  for place = 1, select('#', ...) do bytes[place] = cmsgpack.pack((select(place, ...))) end
  return table.concat(bytes)
end
local function write(id, record)
  writes[id] = record
end
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
local function plan_new(id, key, raw, body)
  new_pairs[#new_pairs + 1] = key
  new_pairs[#new_pairs + 1] = raw
  if body then plan('SET', root .. 'b:' .. id, body) end
  created[#created + 1] = id
end
local next_seq, last_seq = 1, 0
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
local function blame(record, by)
  if by == 0 then return end
  plan('ZINCRBY', root .. 'failing', by, record[NAME])
  if by < 0 then plan('ZREMRANGEBYSCORE', root .. 'failing', '-inf', 0) end
end
local function faults(record)
  local sum = record[FAILURES] + record[CRASHES]
  return (record[STATE] == 'x' and sum == 0) and 1 or sum
end
local function write_after(key, entry)
  plan('ZADD', root .. 'after', 'NX', now_ms, key)
  plan('HSETNX', root .. 'after-entries', key, entry)
end
local function write_all_after(after)
  for place = 1, #after, 2 do write_after(after[place], after[place + 1]) end
end
local NOTHING_FOLLOWS = '{"callbacks":null,"errbacks":null,"chain":null,"chord":null}]'
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
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS], record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = '', '', 0, 0
end
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
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
end
local function let_go(id, record)
  local owner = record[OWNER]
  ended[owner] = ended[owner] or {}
  table.insert(ended[owner], id)
  moved[record[QUEUE]] = (moved[record[QUEUE]] or 0) - 1
  record[OWNER] = ''
end
local NEWEST_BYTES = 40000
local function note_created()
  local key = root .. 'newest'
  local length = redis.call('APPEND', key, table.concat(created, '\\n') .. '\\n')
  if length > 2 * NEWEST_BYTES then
    local last = redis.call('GETRANGE', key, -NEWEST_BYTES, -1)
    redis.call('SET', key, string.sub(last, string.find(last, '\\n', 1, true) + 1))
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
local items, ids, statuses = cmsgpack.unpack(ARGV[1]), {}, {}
for place, item in ipairs(items) do ids[place] = item[1] end
read(ids)
for place, item in ipairs(items) do
  local id, record = item[1], records[item[1]]
  statuses[place] = 2
  if record and record[STATE] == 'x' and record[DEATHS] == item[2] then
    plan('ZREM', root .. 'dead', id)
    finish(id, record, 'c', 'purged', DAY_MS)
    record[ENDING], record[ERROR], record[HISTORY] = 'dead', '', ''
    note(record, 'g')
    write(id, record)
    statuses[place] = 1
  end
end
flush()
return statuses`,
  },
  ledgerReap: {
    sha: 'bfc126080e0170b1af6a7efdba4eed5835105411',
    text: `#!lua flags=allow-oom
local root, limit, celery_keep_ms = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local STATE, EPOCH, RUN, OWNER, SETTLED = 1, 2, 3, 4, 5
local NAME, QUEUE, PRIORITY, VERSION, DIGEST = 6, 7, 8, 9, 10
local ETA, EXPIRES, OPTIONS, BODY = 11, 12, 13, 14
local FAILURES, CRASHES, BUDGET, DUE, SEQ = 15, 16, 17, 18, 19
local CREATED, HISTORY, CHECKPOINT_EPOCH, CHECKPOINT_SEQ = 20, 21, 22, 23
local DEATHS, ENDING, ENDED, WHY, ERROR, RESULT, KEEP = 24, 25, 26, 27, 28, 29, 30
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
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
  local history = record[HISTORY] .. step .. now_text .. ' ' .. digits(record[EPOCH]) .. ' ' .. (rest or '') .. '\\n'
  if #history > HISTORY_BYTES then
    history = string.sub(history, string.find(history, '\\n', #history - HISTORY_BYTES, true) + 1)
  end
  record[HISTORY] = history
end
local RECORD_HEAD = '\\220\\000\\030'
local function pack_places(...)
  local bytes = {}
  for place = 1, select('#', ...) do bytes[place] = cmsgpack.pack((select(place, ...))) end
  return table.concat(bytes)
end
local function write(id, record)
  writes[id] = record
end
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
local function plan_new(id, key, raw, body)
  new_pairs[#new_pairs + 1] = key
  new_pairs[#new_pairs + 1] = raw
  if body then plan('SET', root .. 'b:' .. id, body) end
  created[#created + 1] = id
end
local next_seq, last_seq = 1, 0
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
local function blame(record, by)
  if by == 0 then return end
  plan('ZINCRBY', root .. 'failing', by, record[NAME])
  if by < 0 then plan('ZREMRANGEBYSCORE', root .. 'failing', '-inf', 0) end
end
local function faults(record)
  local sum = record[FAILURES] + record[CRASHES]
  return (record[STATE] == 'x' and sum == 0) and 1 or sum
end
local function write_after(key, entry)
  plan('ZADD', root .. 'after', 'NX', now_ms, key)
  plan('HSETNX', root .. 'after-entries', key, entry)
end
local function write_all_after(after)
  for place = 1, #after, 2 do write_after(after[place], after[place + 1]) end
end
local NOTHING_FOLLOWS = '{"callbacks":null,"errbacks":null,"chain":null,"chord":null}]'
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
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS], record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = '', '', 0, 0
end
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
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
end
local function let_go(id, record)
  local owner = record[OWNER]
  ended[owner] = ended[owner] or {}
  table.insert(ended[owner], id)
  moved[record[QUEUE]] = (moved[record[QUEUE]] or 0) - 1
  record[OWNER] = ''
end
local NEWEST_BYTES = 40000
local function note_created()
  local key = root .. 'newest'
  local length = redis.call('APPEND', key, table.concat(created, '\\n') .. '\\n')
  if length > 2 * NEWEST_BYTES then
    local last = redis.call('GETRANGE', key, -NEWEST_BYTES, -1)
    redis.call('SET', key, string.sub(last, string.find(last, '\\n', 1, true) + 1))
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
local function wait(id, record, delay_ms)
  record[STATE], record[RUN], record[OWNER] = 'w', '', ''
  if delay_ms then record[DUE] = now_ms + delay_ms end
  enter(id, record)
end
local iso
local function iso_json()
  if iso then return iso end
  local days, ms = math.floor(now_ms / 86400000), now_ms % 86400000
  local shifted = days + 719468
  local era = math.floor(shifted / 146097)
  local of_era = shifted - era * 146097
  local year = math.floor((of_era - math.floor(of_era / 1460) + math.floor(of_era / 36524) - math.floor(of_era / 146096)) / 365)
  local of_year = of_era - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  local from_march = math.floor((5 * of_year + 2) / 153)
  local day = of_year - math.floor((153 * from_march + 2) / 5) + 1
  local month = from_march + (from_march < 10 and 3 or -9)
  local seconds = math.floor(ms / 1000)
  iso = string.format('"%04d-%02d-%02dT%02d:%02d:%02d.%03d000+00:00"', year + era * 400 + (month <= 2 and 1 or 0), month, day,
    math.floor(seconds / 3600), math.floor(seconds / 60) % 60, seconds % 60, ms % 1000)
  return iso
end
local UNDER_WAY = { STARTED = true, RETRY = true }
local function write_celery(id, status, result, traceback)
  local key = 'celery-task-meta-' .. id
  local date = UNDER_WAY[status] and 'null' or iso_json()
  local shown = string.find(id, '^[%w-]+$') and id or string.sub(cjson.encode(id), 2, -2)
  local text = '{"status": "' .. status .. '", "result": ' .. result .. ', "traceback": ' .. traceback
    .. ', "children": [], "date_done": ' .. date .. ', "task_id": "' .. shown .. '"}'
  plan('SET', key, text, 'PXAT', digits(now_ms + celery_keep_ms))
  plan('PUBLISH', key, text)
end
local function tell_celery(id, record, status, result, traceback)
  if celery_keep_ms == 0 or string.find(record[OPTIONS], '"keepResult":false', 1, true) then return end
  write_celery(id, status, result, traceback)
end
local function exception_text(kind, message, module)
  return '{"exc_type": ' .. cjson.encode(kind) .. ', "exc_message": [' .. cjson.encode(message) .. '], "exc_module": "' .. module .. '"}'
end
local function tell_celery_error(id, record, status, err)
  if celery_keep_ms == 0 then return end
  local is_read, read_error = pcall(cjson.decode, err)
  if not is_read then read_error = { type = 'Error', message = 'see the dead letter', traceback = '' } end
  local traceback = read_error.traceback ~= '' and cjson.encode(read_error.traceback) or 'null'
  tell_celery(id, record, status, exception_text(read_error.type, read_error.message, 'outlast'), traceback)
end
local function tell_celery_revoked(id, record, why)
  tell_celery(id, record, 'REVOKED', exception_text('TaskRevokedError', why, 'celery.exceptions'), 'null')
end
local REMEMBER_CLOSED_MS = 60000
local tasks = {}
local function bring_back(id, record)
  record[CRASHES] = record[CRASHES] + 1
  blame(record, 1)
  local is_spent = record[CRASHES] > record[BUDGET]
  if is_spent then
    note(record, 'x')
    local why = '"message":"its worker died ' .. record[CRASHES] .. ' times"'
    local err = '{"type":"ERR_RESURRECTIONS_SPENT",' .. why .. ',"traceback":""}'
    tell_celery_error(id, record, 'FAILURE', err)
    die(id, record, 'ERR_RESURRECTIONS_SPENT', err)
  else
    note(record, 'p')
    wait(id, record, nil)
  end
  write(id, record)
  tasks[#tasks + 1] = { id, record[NAME], record[QUEUE], record[CRASHES], is_spent and 1 or 0 }
end
for _, worker in ipairs(redis.call('ZRANGE', root .. 'closed', 0, -1)) do
  if #tasks >= limit then break end
  local ids = redis.call('HRANDFIELD', root .. 'r:' .. worker, limit - #tasks)
  read(ids)
  for _, id in ipairs(ids) do
    local record = records[id]
    if record and record[STATE] == 'r' and record[OWNER] == worker then
      let_go(id, record)
      bring_back(id, record)
    else
      plan('HDEL', root .. 'r:' .. worker, id)
    end
  end
end
flush()
local forgotten = redis.call('ZRANGEBYSCORE', root .. 'closed', '-inf', now_ms - REMEMBER_CLOSED_MS)
for _, worker in ipairs(forgotten) do
  if redis.call('EXISTS', root .. 'r:' .. worker) == 0 then
    redis.call('ZREM', root .. 'closed', worker)
    redis.call('HDEL', root .. 'workers', worker)
  end
end
return { now_ms, tasks }`,
  },
  ledgerRelease: {
    sha: 'b51b73cb79b5120a63b4601d181970cdc7b99646',
    text: `#!lua flags=allow-oom
local root = KEYS[1]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local STATE, EPOCH, RUN, OWNER, SETTLED = 1, 2, 3, 4, 5
local NAME, QUEUE, PRIORITY, VERSION, DIGEST = 6, 7, 8, 9, 10
local ETA, EXPIRES, OPTIONS, BODY = 11, 12, 13, 14
local FAILURES, CRASHES, BUDGET, DUE, SEQ = 15, 16, 17, 18, 19
local CREATED, HISTORY, CHECKPOINT_EPOCH, CHECKPOINT_SEQ = 20, 21, 22, 23
local DEATHS, ENDING, ENDED, WHY, ERROR, RESULT, KEEP = 24, 25, 26, 27, 28, 29, 30
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
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
  local history = record[HISTORY] .. step .. now_text .. ' ' .. digits(record[EPOCH]) .. ' ' .. (rest or '') .. '\\n'
  if #history > HISTORY_BYTES then
    history = string.sub(history, string.find(history, '\\n', #history - HISTORY_BYTES, true) + 1)
  end
  record[HISTORY] = history
end
local RECORD_HEAD = '\\220\\000\\030'
local function pack_places(...)
  local bytes = {}
  for place = 1, select('#', ...) do bytes[place] = cmsgpack.pack((select(place, ...))) end
  return table.concat(bytes)
end
local function write(id, record)
  writes[id] = record
end
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
local function plan_new(id, key, raw, body)
  new_pairs[#new_pairs + 1] = key
  new_pairs[#new_pairs + 1] = raw
  if body then plan('SET', root .. 'b:' .. id, body) end
  created[#created + 1] = id
end
local next_seq, last_seq = 1, 0
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
local function blame(record, by)
  if by == 0 then return end
  plan('ZINCRBY', root .. 'failing', by, record[NAME])
  if by < 0 then plan('ZREMRANGEBYSCORE', root .. 'failing', '-inf', 0) end
end
local function faults(record)
  local sum = record[FAILURES] + record[CRASHES]
  return (record[STATE] == 'x' and sum == 0) and 1 or sum
end
local function write_after(key, entry)
  plan('ZADD', root .. 'after', 'NX', now_ms, key)
  plan('HSETNX', root .. 'after-entries', key, entry)
end
local function write_all_after(after)
  for place = 1, #after, 2 do write_after(after[place], after[place + 1]) end
end
local NOTHING_FOLLOWS = '{"callbacks":null,"errbacks":null,"chain":null,"chord":null}]'
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
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS], record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = '', '', 0, 0
end
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
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
end
local function let_go(id, record)
  local owner = record[OWNER]
  ended[owner] = ended[owner] or {}
  table.insert(ended[owner], id)
  moved[record[QUEUE]] = (moved[record[QUEUE]] or 0) - 1
  record[OWNER] = ''
end
local NEWEST_BYTES = 40000
local function note_created()
  local key = root .. 'newest'
  local length = redis.call('APPEND', key, table.concat(created, '\\n') .. '\\n')
  if length > 2 * NEWEST_BYTES then
    local last = redis.call('GETRANGE', key, -NEWEST_BYTES, -1)
    redis.call('SET', key, string.sub(last, string.find(last, '\\n', 1, true) + 1))
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
local function wait(id, record, delay_ms)
  record[STATE], record[RUN], record[OWNER] = 'w', '', ''
  if delay_ms then record[DUE] = now_ms + delay_ms end
  enter(id, record)
end
local function settle(items, step, apply)
  local ids, statuses = {}, {}
  for place, item in ipairs(items) do ids[place] = item[1] end
  read(ids)
  for place, item in ipairs(items) do
    local id, epoch, run = item[1], item[2], item[3]
    local record = records[id]
    local mark = step .. digits(epoch) .. ' ' .. run
    if not record then
      statuses[place] = 3
    elseif record[SETTLED] == mark then
      statuses[place] = 1
    elseif record[STATE] ~= 'r' or record[EPOCH] ~= epoch or record[RUN] ~= run then
      statuses[place] = 2
    else
      record[SETTLED] = mark
      let_go(id, record)
      apply(id, record, item)
      write(id, record)
      statuses[place] = 1
    end
  end
  flush()
  return statuses
end
return settle(cmsgpack.unpack(ARGV[1]), 'r', function(id, record, item)
  note(record, 'r')
  wait(id, record, item[4] or nil)
end)`,
  },
  ledgerRenew: {
    sha: 'cba9b2fd6089753b16588ce4022b3efd44c138b6',
    text: `#!lua flags=allow-oom
local root, worker = KEYS[1], ARGV[1]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local leases = root .. 'leases'
if not redis.call('ZSCORE', leases, worker) then return { 'closed' } end
local row = redis.call('HGET', root .. 'workers', worker)
if not row then return { 'closed' } end
redis.call('ZADD', leases, now_ms + cmsgpack.unpack(row)[4], worker)
return { 'open', redis.call('HGETALL', root .. 'r:' .. worker) }`,
  },
  ledgerRevive: {
    sha: '8525ba7e02ca96ad7af96e8df260e510465e9b0d',
    text: `#!lua flags=allow-oom
local root, id, version = KEYS[1], ARGV[1], tonumber(ARGV[2])
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local STATE, EPOCH, RUN, OWNER, SETTLED = 1, 2, 3, 4, 5
local NAME, QUEUE, PRIORITY, VERSION, DIGEST = 6, 7, 8, 9, 10
local ETA, EXPIRES, OPTIONS, BODY = 11, 12, 13, 14
local FAILURES, CRASHES, BUDGET, DUE, SEQ = 15, 16, 17, 18, 19
local CREATED, HISTORY, CHECKPOINT_EPOCH, CHECKPOINT_SEQ = 20, 21, 22, 23
local DEATHS, ENDING, ENDED, WHY, ERROR, RESULT, KEEP = 24, 25, 26, 27, 28, 29, 30
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
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
  local history = record[HISTORY] .. step .. now_text .. ' ' .. digits(record[EPOCH]) .. ' ' .. (rest or '') .. '\\n'
  if #history > HISTORY_BYTES then
    history = string.sub(history, string.find(history, '\\n', #history - HISTORY_BYTES, true) + 1)
  end
  record[HISTORY] = history
end
local RECORD_HEAD = '\\220\\000\\030'
local function pack_places(...)
  local bytes = {}
  for place = 1, select('#', ...) do bytes[place] = cmsgpack.pack((select(place, ...))) end
  return table.concat(bytes)
end
local function write(id, record)
  writes[id] = record
end
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
local function plan_new(id, key, raw, body)
  new_pairs[#new_pairs + 1] = key
  new_pairs[#new_pairs + 1] = raw
  if body then plan('SET', root .. 'b:' .. id, body) end
  created[#created + 1] = id
end
local next_seq, last_seq = 1, 0
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
local function blame(record, by)
  if by == 0 then return end
  plan('ZINCRBY', root .. 'failing', by, record[NAME])
  if by < 0 then plan('ZREMRANGEBYSCORE', root .. 'failing', '-inf', 0) end
end
local function faults(record)
  local sum = record[FAILURES] + record[CRASHES]
  return (record[STATE] == 'x' and sum == 0) and 1 or sum
end
local function write_after(key, entry)
  plan('ZADD', root .. 'after', 'NX', now_ms, key)
  plan('HSETNX', root .. 'after-entries', key, entry)
end
local function write_all_after(after)
  for place = 1, #after, 2 do write_after(after[place], after[place + 1]) end
end
local NOTHING_FOLLOWS = '{"callbacks":null,"errbacks":null,"chain":null,"chord":null}]'
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
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS], record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = '', '', 0, 0
end
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
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
end
local function let_go(id, record)
  local owner = record[OWNER]
  ended[owner] = ended[owner] or {}
  table.insert(ended[owner], id)
  moved[record[QUEUE]] = (moved[record[QUEUE]] or 0) - 1
  record[OWNER] = ''
end
local NEWEST_BYTES = 40000
local function note_created()
  local key = root .. 'newest'
  local length = redis.call('APPEND', key, table.concat(created, '\\n') .. '\\n')
  if length > 2 * NEWEST_BYTES then
    local last = redis.call('GETRANGE', key, -NEWEST_BYTES, -1)
    redis.call('SET', key, string.sub(last, string.find(last, '\\n', 1, true) + 1))
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
local function wait(id, record, delay_ms)
  record[STATE], record[RUN], record[OWNER] = 'w', '', ''
  if delay_ms then record[DUE] = now_ms + delay_ms end
  enter(id, record)
end
read({ id })
local record = records[id]
if not record then return 3 end
if record[STATE] ~= 'x' or record[DEATHS] ~= version then return 2 end
if record[EXPIRES] and record[EXPIRES] <= now_ms then return 4 end
blame(record, -faults(record))
plan('ZREM', root .. 'dead', id)
if ARGV[3] == '1' then plan('UNLINK', 'celery-task-meta-' .. id) end
record[FAILURES], record[CRASHES], record[ENDED] = 0, 0, 0
record[ENDING], record[WHY], record[ERROR] = '', '', ''
note(record, 'v')
wait(id, record, 0)
write(id, record)
flush()
return 1`,
  },
  ledgerSample: {
    sha: '89d2b59f68fbf0eaaa8787ba458a930776c5c150',
    text: `#!lua flags=no-writes
local root, top = KEYS[1], tonumber(ARGV[1])
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local queues = {}
local running = redis.call('HGETALL', root .. 'running')
for place = 1, #running, 2 do
  local queue, waiting = running[place], 0
  for _, set in ipairs({ 'ready:', 'later:', 'ready-suspects:', 'later-suspects:' }) do
    waiting = waiting + redis.call('ZCARD', root .. set .. queue)
  end
  queues[#queues + 1] = { queue, waiting, tonumber(running[place + 1]) }
end
return {
  redis.call('HGETALL', root .. 'ended'),
  redis.call('ZCARD', root .. 'dead'),
  redis.call('ZCOUNT', root .. 'leases', string.format('%.0f', now_ms), '+inf'),
  queues,
  top > 0 and redis.call('ZREVRANGE', root .. 'failing', 0, top - 1, 'WITHSCORES') or {},
}`,
  },
  ledgerWake: {
    sha: '8f22e94fec3231870f77f94a28c9ec30dbd3d081',
    text: `#!lua flags=allow-oom
local root, ids = KEYS[1], cmsgpack.unpack(ARGV[1])
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local STATE, EPOCH, RUN, OWNER, SETTLED = 1, 2, 3, 4, 5
local NAME, QUEUE, PRIORITY, VERSION, DIGEST = 6, 7, 8, 9, 10
local ETA, EXPIRES, OPTIONS, BODY = 11, 12, 13, 14
local FAILURES, CRASHES, BUDGET, DUE, SEQ = 15, 16, 17, 18, 19
local CREATED, HISTORY, CHECKPOINT_EPOCH, CHECKPOINT_SEQ = 20, 21, 22, 23
local DEATHS, ENDING, ENDED, WHY, ERROR, RESULT, KEEP = 24, 25, 26, 27, 28, 29, 30
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
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
  local history = record[HISTORY] .. step .. now_text .. ' ' .. digits(record[EPOCH]) .. ' ' .. (rest or '') .. '\\n'
  if #history > HISTORY_BYTES then
    history = string.sub(history, string.find(history, '\\n', #history - HISTORY_BYTES, true) + 1)
  end
  record[HISTORY] = history
end
local RECORD_HEAD = '\\220\\000\\030'
local function pack_places(...)
  local bytes = {}
  for place = 1, select('#', ...) do bytes[place] = cmsgpack.pack((select(place, ...))) end
  return table.concat(bytes)
end
local function write(id, record)
  writes[id] = record
end
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
local function plan_new(id, key, raw, body)
  new_pairs[#new_pairs + 1] = key
  new_pairs[#new_pairs + 1] = raw
  if body then plan('SET', root .. 'b:' .. id, body) end
  created[#created + 1] = id
end
local next_seq, last_seq = 1, 0
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
local function blame(record, by)
  if by == 0 then return end
  plan('ZINCRBY', root .. 'failing', by, record[NAME])
  if by < 0 then plan('ZREMRANGEBYSCORE', root .. 'failing', '-inf', 0) end
end
local function faults(record)
  local sum = record[FAILURES] + record[CRASHES]
  return (record[STATE] == 'x' and sum == 0) and 1 or sum
end
local function write_after(key, entry)
  plan('ZADD', root .. 'after', 'NX', now_ms, key)
  plan('HSETNX', root .. 'after-entries', key, entry)
end
local function write_all_after(after)
  for place = 1, #after, 2 do write_after(after[place], after[place + 1]) end
end
local NOTHING_FOLLOWS = '{"callbacks":null,"errbacks":null,"chain":null,"chord":null}]'
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
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS], record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = '', '', 0, 0
end
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
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
end
local function let_go(id, record)
  local owner = record[OWNER]
  ended[owner] = ended[owner] or {}
  table.insert(ended[owner], id)
  moved[record[QUEUE]] = (moved[record[QUEUE]] or 0) - 1
  record[OWNER] = ''
end
local NEWEST_BYTES = 40000
local function note_created()
  local key = root .. 'newest'
  local length = redis.call('APPEND', key, table.concat(created, '\\n') .. '\\n')
  if length > 2 * NEWEST_BYTES then
    local last = redis.call('GETRANGE', key, -NEWEST_BYTES, -1)
    redis.call('SET', key, string.sub(last, string.find(last, '\\n', 1, true) + 1))
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
local function wait(id, record, delay_ms)
  record[STATE], record[RUN], record[OWNER] = 'w', '', ''
  if delay_ms then record[DUE] = now_ms + delay_ms end
  enter(id, record)
end
local woken = 0
read(ids)
for _, id in ipairs(ids) do
  local record = records[id]
  if record and record[STATE] == 'w' and record[DUE] > now_ms then
    leave(id, record)
    wait(id, record, 0)
    write(id, record)
    woken = woken + 1
  end
end
flush()
return woken`,
  },
  release: {
    sha: 'ab3198674600a77c0d57601652e4ef2ab8657e09',
    text: `#!lua flags=allow-oom
local function put_back(held, tags, lists, most)
  table.sort(tags)
  local returned = 0
  for index = #tags, math.max(1, #tags - most + 1), -1 do
    local value = redis.call('HGET', held, tags[index])
    if value then
      local list = lists[tonumber(string.match(tags[index], '^%d+%.%d+%.(%d)%.'))]
      local pushed = redis.pcall('RPUSH', list, value)
      if type(pushed) == 'number' then
        redis.call('HDEL', held, tags[index])
        returned = returned + 1
      end
    end
  end
  return returned
end
local leases, held, consumer = KEYS[5], KEYS[6], ARGV[1]
local tags = redis.call('HKEYS', held)
local returned = put_back(held, tags, { KEYS[1], KEYS[2], KEYS[3], KEYS[4] }, #tags)
if returned == #tags then redis.call('ZREM', leases, consumer) end
return returned`,
  },
  renew: {
    sha: 'c2f0bd2d5013561204c42085a4e80f485c79a2f1',
    text: `#!lua flags=allow-oom
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local leases, held = KEYS[1], KEYS[2]
local consumer, lease_ms = ARGV[1], tonumber(ARGV[2])
local tags = redis.call('HKEYS', held)
if #tags == 0 then
  redis.call('ZREM', leases, consumer)
else
  redis.call('ZADD', leases, now_ms + lease_ms, consumer)
end
return tags`,
  },
  take: {
    sha: 'cb211b7977f6e215a0083e0a74f9239d42c83f7b',
    text: `#!lua flags=allow-oom
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local function put_back(held, tags, lists, most)
  table.sort(tags)
  local returned = 0
  for index = #tags, math.max(1, #tags - most + 1), -1 do
    local value = redis.call('HGET', held, tags[index])
    if value then
      local list = lists[tonumber(string.match(tags[index], '^%d+%.%d+%.(%d)%.'))]
      local pushed = redis.pcall('RPUSH', list, value)
      if type(pushed) == 'number' then
        redis.call('HDEL', held, tags[index])
        returned = returned + 1
      end
    end
  end
  return returned
end
local consumer, token, lease_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])
local left, reap_limit = tonumber(ARGV[4]), tonumber(ARGV[5])
local stamp = time[1] .. string.format('%06d', time[2]) .. '.'
local reply, count = { stamp }, 10000
local function reap(lists, leases, prefix)
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now_ms, 'LIMIT', 0, 10)) do
    local held = prefix .. name
    if name ~= consumer then put_back(held, redis.call('HKEYS', held), lists, reap_limit) end
    if redis.call('EXISTS', held) == 0 then redis.call('ZREM', leases, name) end
  end
end
local function move(list, step, place, held)
  local popped = redis.pcall('RPOP', list, left)
  if not popped or popped.err then return end
  local fields, rest = {}, '.' .. step .. '.' .. token
  for index, element in ipairs(popped) do
    fields[index * 2 - 1] = stamp .. (count + index) .. rest
    fields[index * 2] = element
  end
  redis.call('HSET', held, unpack(fields))
  for _, value in ipairs({ place, step, count + 1, popped }) do reply[#reply + 1] = value end
  count, left = count + #popped, left - #popped
end
for place = 1, #KEYS / 6 do
  local first = (place - 1) * 6
  local lists = { KEYS[first + 1], KEYS[first + 2], KEYS[first + 3], KEYS[first + 4] }
  local leases, prefix = KEYS[first + 5], KEYS[first + 6]
  reap(lists, leases, prefix)
  local held, before = prefix .. consumer, count
  redis.call('HLEN', held)
  for step, list in ipairs(lists) do
    if left > 0 then move(list, step, place, held) end
  end
  if count > before then redis.call('ZADD', leases, now_ms + lease_ms, consumer) end
end
return reply`,
  },
} as const;
