// Written by scripts/embed-assets.mjs from the .lua files; edit those and run npm run build.
type Entry = { readonly sha: string; readonly text: string };

export const LUA: {
  readonly admissionConfirm: Entry;
  readonly admissionFigures: Entry;
  readonly admissionFree: Entry;
  readonly admissionMemory: Entry;
  readonly admissionRefund: Entry;
  readonly admissionReserve: Entry;
  readonly admissionTake: Entry;
  readonly admissionWant: Entry;
  readonly answer: Entry;
  readonly celeryStore: Entry;
  readonly controlConsumers: Entry;
  readonly controlDrain: Entry;
  readonly controlLook: Entry;
  readonly enqueue: Entry;
  readonly giveBack: Entry;
  readonly idempotencyAcquire: Entry;
  readonly idempotencyComplete: Entry;
  readonly idempotencyFree: Entry;
  readonly idempotencyRead: Entry;
  readonly idempotencyRenew: Entry;
  readonly idempotencyReview: Entry;
  readonly ledgerAfterDefer: Entry;
  readonly ledgerAfterList: Entry;
  readonly ledgerAfterStrike: Entry;
  readonly ledgerAnnounceCeleryChord: Entry;
  readonly ledgerAsideEnd: Entry;
  readonly ledgerAsideList: Entry;
  readonly ledgerBeginFull: Entry;
  readonly ledgerBegin: Entry;
  readonly ledgerBuryMessages: Entry;
  readonly ledgerBuryRuns: Entry;
  readonly ledgerCancel: Entry;
  readonly ledgerCheckpoint: Entry;
  readonly ledgerCommitNew: Entry;
  readonly ledgerCommit: Entry;
  readonly ledgerCondemnExpired: Entry;
  readonly ledgerCondemnProcess: Entry;
  readonly ledgerCondemnWorkers: Entry;
  readonly ledgerEvacuateEnd: Entry;
  readonly ledgerEvacuateList: Entry;
  readonly ledgerFail: Entry;
  readonly ledgerGeneration: Entry;
  readonly ledgerInfo: Entry;
  readonly ledgerIsolate: Entry;
  readonly ledgerJoinCeleryChord: Entry;
  readonly ledgerJoinChord: Entry;
  readonly ledgerLate: Entry;
  readonly ledgerLookCeleryChord: Entry;
  readonly ledgerLookChord: Entry;
  readonly ledgerNoteChord: Entry;
  readonly ledgerNow: Entry;
  readonly ledgerObjectives: Entry;
  readonly ledgerOpen: Entry;
  readonly ledgerParkFull: Entry;
  readonly ledgerPark: Entry;
  readonly ledgerPurge: Entry;
  readonly ledgerRaiseEpoch: Entry;
  readonly ledgerReap: Entry;
  readonly ledgerRelease: Entry;
  readonly ledgerRenew: Entry;
  readonly ledgerRevive: Entry;
  readonly ledgerSample: Entry;
  readonly ledgerTallyAge: Entry;
  readonly ledgerTell: Entry;
  readonly ledgerTotals: Entry;
  readonly ledgerWake: Entry;
  readonly release: Entry;
  readonly renew: Entry;
  readonly take: Entry;
} = {
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
  celeryStore: {
    sha: 'de29b85e68769562ab390b03612bf6d94db29ba9',
    text: `#!lua flags=allow-oom
local meta, answer, keep_ms = KEYS[1], ARGV[1], ARGV[2]
local HEAD_BYTES = 400
if string.find(redis.call('GETRANGE', meta, 0, HEAD_BYTES), '"status": "SUCCESS"', 1, true) then return 0 end
redis.call('SET', meta, answer, 'PX', keep_ms)
redis.call('PUBLISH', meta, answer)
return 1`,
  },
  controlConsumers: {
    sha: '143dbb7ccc20aa4b1533e6fe0758c6c5c8836244',
    text: `#!lua flags=allow-oom
local root = KEYS[1]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local consumers, rows, draining = root .. 'consumers', root .. 'consumer', root .. 'draining'
for _, worker in ipairs(redis.call('ZRANGEBYSCORE', consumers, '-inf', '(' .. now_ms, 'LIMIT', 0, 500)) do
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
    sha: '3de99bdb9df3a88c6b7d522550c5ff50bbc3059e',
    text: `#!lua flags=allow-oom
local root, key, digest, task, epoch = KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local lease_ms, instead_of, instead_epoch, most = ARGV[5], ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8])
local ttl_ms, run = ARGV[9], ARGV[10]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local record, held = root .. 'k:' .. key, root .. 'held'
local found = redis.call('HMGET', record, 'state', 'task', 'epoch', 'digest', 'held_at', 'origin', 'freed_by', 'run')
local state, holder, holder_epoch, held_at = found[1], found[2], tonumber(found[3]), found[5]
local is_held, is_own = state == 'held', holder == task
local is_free = is_held and found[7] == holder .. '@' .. found[3]
local is_earlier = is_held and is_own and (holder_epoch < epoch or (holder_epoch == epoch and (found[8] or run) == run))
local takes = not state or is_free or is_earlier
  or (is_held and not is_own and holder == instead_of and holder_epoch == instead_epoch)
if takes then
  local origin = found[6] or holder or task
  redis.call('HDEL', record, 'w:' .. task, 'result', 'freed_by')
  if not is_own or is_free then held_at = now_ms end
  redis.call('HSET', record, 'state', 'held', 'task', task, 'epoch', ARGV[4], 'digest', digest, 'held_at', held_at, 'origin', origin, 'ttl', ttl_ms, 'run', run)
  if lease_ms == '' then
    redis.call('PERSIST', record)
    redis.call('ZADD', held, now_ms, key)
  else
    redis.call('PEXPIRE', record, lease_ms)
  end
  return { 1, origin }
end
if is_own and is_held then return { 2, holder_epoch } end
if not is_own and found[4] ~= digest then
  if is_held then return { 5, holder, found[3], now_ms - held_at } end
  return { 6 }
end
if not is_held then return { 3, holder, redis.call('HGET', record, 'result') } end
local asked = most
if lease_ms == '' and (redis.call('HLEN', record) < most + 8 or redis.call('HEXISTS', record, 'w:' .. task) == 1) then
  asked = redis.call('HINCRBY', record, 'w:' .. task, 1)
end
return { 4, holder, found[3], now_ms - held_at, asked }`,
  },
  idempotencyComplete: {
    sha: '6e7889286393170e4192a54d5585131ddacbea70',
    text: `#!lua flags=allow-oom
local root, key, task, epoch, run = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local ttl_ms, result = ARGV[5], ARGV[6]
local function waiters_of(record)
  local waiters = {}
  for _, field in ipairs(redis.call('HKEYS', record)) do
    if string.sub(field, 1, 2) == 'w:' then waiters[#waiters + 1] = string.sub(field, 3) end
  end
  return waiters
end
local record = root .. 'k:' .. key
local found = redis.call('HMGET', record, 'state', 'task', 'epoch', 'freed_by', 'run')
if found[2] ~= task or found[3] ~= epoch or (found[5] or run) ~= run or found[4] == task .. '@' .. epoch then return false end
if found[1] == 'held' then
  redis.call('HSET', record, 'state', 'done')
  if result then redis.call('HSET', record, 'result', result) end
  redis.call('PEXPIRE', record, ttl_ms)
  redis.call('ZREM', root .. 'held', key)
end
return waiters_of(record)`,
  },
  idempotencyFree: {
    sha: 'bcf2ec6b874ce366008f6730360b4073f25b5c1a',
    text: `#!lua flags=allow-oom
local root, key, task, epoch, run, even_done = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5] == '1'
local function waiters_of(record)
  local waiters = {}
  for _, field in ipairs(redis.call('HKEYS', record)) do
    if string.sub(field, 1, 2) == 'w:' then waiters[#waiters + 1] = string.sub(field, 3) end
  end
  return waiters
end
local record = root .. 'k:' .. key
local found = redis.call('HMGET', record, 'state', 'task', 'epoch', 'freed_by', 'ttl', 'run')
if found[2] ~= task or found[3] ~= epoch or (found[6] or run) ~= run then return false end
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
    sha: '5b18b35df278e39b669bdad2f88823befb97e816',
    text: `#!lua flags=allow-oom
local root, key, task, epoch, run, lease_ms = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local record = root .. 'k:' .. key
local found = redis.call('HMGET', record, 'state', 'task', 'epoch', 'freed_by', 'run')
if found[1] ~= 'held' or found[2] ~= task or found[3] ~= epoch then return 0 end
if (found[5] or run) ~= run or found[4] == task .. '@' .. epoch then return 0 end
return redis.call('PEXPIRE', record, lease_ms)`,
  },
  idempotencyReview: {
    sha: 'c48a71f9d48a896a60d17a8531634f80d153c7a2',
    text: `#!lua flags=allow-oom
local root, idle_ms, limit = KEYS[1], tonumber(ARGV[1]), ARGV[2]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local reviewed = {}
for _, key in ipairs(redis.call('ZRANGEBYSCORE', root .. 'held', '-inf', now_ms - idle_ms, 'LIMIT', 0, limit)) do
  local found = redis.call('HMGET', root .. 'k:' .. key, 'task', 'epoch', 'held_at', 'run')
  redis.call('ZADD', root .. 'held', now_ms, key)
  reviewed[#reviewed + 1] = { key, found[1], found[2], now_ms - found[3], found[4] or '' }
end
return reviewed`,
  },
  ledgerAfterDefer: {
    sha: '544fb1693296adc7ccd9a3ba5bbcd6e3a73ac643',
    text: `#!lua flags=allow-oom
local root = KEYS[1]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
for at = 1, #ARGV, 3 do
  local key = ARGV[at]
  if redis.call('HEXISTS', root .. 'after-entries', key) == 1 then
    redis.call('ZADD', root .. 'after', 'XX', now_ms + tonumber(ARGV[at + 1]), key)
    if ARGV[at + 2] == '1' then redis.call('HINCRBY', root .. 'after-attempts', key, 1) end
  end
end
return 1`,
  },
  ledgerAfterList: {
    sha: '897ac07222f56805bf9bf842907593e255cda32c',
    text: `#!lua flags=no-writes
local root, older_than_ms, limit, most_bytes = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local keys = redis.call('ZRANGEBYSCORE', root .. 'after', '-inf', now_ms - older_than_ms, 'LIMIT', 0, limit)
local reply, bytes = {}, 0
for place, key in ipairs(keys) do
  bytes = bytes + redis.call('HSTRLEN', root .. 'after-entries', key)
  if place > 1 and bytes > most_bytes then break end
  reply[#reply + 1] = key
  reply[#reply + 1] = redis.call('HGET', root .. 'after-attempts', key) or '0'
  reply[#reply + 1] = redis.call('HGET', root .. 'after-entries', key) or ''
end
return reply`,
  },
  ledgerAfterStrike: {
    sha: '67cc399b628fe325004b3b8d68d44ef0da0ba768',
    text: `#!lua flags=allow-oom
local root = KEYS[1]
for from = 1, #ARGV, 1000 do
  local upto = math.min(#ARGV, from + 999)
  redis.call('ZREM', root .. 'after', unpack(ARGV, from, upto))
  redis.call('HDEL', root .. 'after-entries', unpack(ARGV, from, upto))
  redis.call('HDEL', root .. 'after-attempts', unpack(ARGV, from, upto))
end
return 1`,
  },
  ledgerAnnounceCeleryChord: {
    sha: 'a0f799801619c635ecf09b4bec2e439bdd45cafb',
    text: `#!lua flags=allow-oom
local announced, total = KEYS[1], KEYS[2]
local size, keep_ms = ARGV[1], ARGV[2]
if redis.call('HSETNX', announced, 'size', size) == 1 then
  redis.call('PEXPIRE', announced, keep_ms)
  redis.call('SET', total, size, 'NX', 'PX', keep_ms)
end`,
  },
  ledgerAsideEnd: {
    sha: '70f099bfd7735fa84e0609226b4da270aa43f27f',
    text: `#!lua flags=allow-oom
local root, id, err, celery_keep_ms, mark = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local STATE, EPOCH, RUN, OWNER, SETTLED = 1, 2, 3, 4, 5
local NAME, QUEUE, PRIORITY, VERSION, DIGEST = 6, 7, 8, 9, 10
local ETA, EXPIRES, OPTIONS, BODY = 11, 12, 13, 14
local FAILURES, CRASHES, BUDGET, DUE, SEQ = 15, 16, 17, 18, 19
local CREATED, HISTORY, CHECKPOINT_EPOCH, CHECKPOINT_SEQ = 20, 21, 22, 23
local DEATHS, ENDING, ENDED, WHY, ERROR, RESULT, KEEP = 24, 25, 26, 27, 28, 29, 30
local tallied, kept, objectives = {}, {}, {}
local KEPT = { done = true, dead = true, expired = true, slow = true }
local function objective_of(name)
  if objectives[name] == nil then objectives[name] = redis.call('HGET', root .. 'objectives', name) end
  return objectives[name]
end
local function add_to(counts, key, figure, by)
  local own = counts[key] or {}
  counts[key] = own
  own[figure] = (own[figure] or 0) + by
end
local function tally(name, queue, figure, by, is_message)
  tallied[name] = tallied[name] or {}
  add_to(tallied[name], queue, figure, by)
  if KEPT[figure] and not is_message and objective_of(name) then add_to(kept, name, figure, by) end
end
local function sent_ms(id, created)
  local high, low = string.match(id, '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-7%x%x%x%-')
  return math.min(created, high and tonumber(high .. low, 16) or created)
end
local function is_slow(name, id, created, eta)
  local objective = objective_of(name)
  local within = objective and tonumber(string.match(objective, '^%S+ (%S+)'))
  return within and now_ms - math.max(sent_ms(id, created), eta or 0) > within
end
local MOST_SERIES, OTHER_NAME = 20000, '(other)'
local function write_tallies()
  local key = root .. 'tally'
  for name, queues in pairs(tallied) do
    for queue, figures in pairs(queues) do
      for figure, by in pairs(figures) do
        local field = cmsgpack.pack({ name, queue, figure })
        if redis.call('HLEN', key) >= MOST_SERIES and redis.call('HEXISTS', key, field) == 0 then
          field = cmsgpack.pack({ OTHER_NAME, OTHER_NAME, figure })
        end
        redis.call('HINCRBY', key, field, by)
      end
    end
  end
  local minute = string.format('%.0f', now_ms - now_ms % 60000)
  for name, figures in pairs(kept) do
    for figure, by in pairs(figures) do redis.call('HINCRBY', root .. 'slo:' .. name, figure .. ':' .. minute, by) end
  end
end
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
local SLICE = 2000
local function in_slices(list, call)
  for first = 1, #list, SLICE do call(first, math.min(first + SLICE - 1, #list)) end
end
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
  if record[KEEP] < 0 or #(record[BODY] or '') < 0 then return end
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
local function path_in(options)
  local from = string.find(options, '"path":"', 1, true)
  local path = from and string.match(options, '^"path":"%d+%.%d+"', from)
  return path and '{' .. path .. '}' or ''
end
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS] = '', path_in(record[OPTIONS])
  record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = 0, 0
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
  if ending == 'purged' then return end
  tally(record[NAME], record[QUEUE], ending, 1)
  if ending == 'done' and is_slow(record[NAME], id, record[CREATED], record[ETA]) then tally(record[NAME], record[QUEUE], 'slow', 1) end
end
local function die(id, record, why, err)
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
  tally(record[NAME], record[QUEUE], 'dead', 1, record[EPOCH] == 0)
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
  in_slices(pairs_of_keys, function(first, last) redis.call('MSET', unpack(pairs_of_keys, first, last)) end)
  for owner, ids in pairs(ended) do
    in_slices(ids, function(first, last) redis.call('HDEL', root .. 'r:' .. owner, unpack(ids, first, last)) end)
  end
  for queue, by in pairs(moved) do
    if redis.call('HINCRBY', root .. 'running', queue, by) < 0 then redis.call('HSET', root .. 'running', queue, 0) end
  end
  for name, by in pairs(counted) do redis.call('HINCRBY', root .. 'ended', name, by) end
  write_tallies()
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
local function aside_set(queue, name)
  return root .. 'aside:' .. queue .. '\\n' .. name
end
local function set_aside(id, record, by)
  note(record, 'n')
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
local function write_celery(id, status, result, traceback, more, children)
  local key = 'celery-task-meta-' .. id
  local date = UNDER_WAY[status] and 'null' or iso_json()
  local shown = string.find(id, '^[%w-]+$') and id or string.sub(cjson.encode(id), 2, -2)
  local text = '{"status": "' .. status .. '", "result": ' .. result .. ', "traceback": ' .. traceback
    .. ', "children": ' .. (children or '[]') .. ', "date_done": ' .. date .. ', "task_id": "' .. shown .. '"' .. (more or '') .. '}'
  plan('SET', key, text, 'PXAT', digits(now_ms + celery_keep_ms))
  plan('PUBLISH', key, text)
end
local function tell_celery(id, record, status, result, traceback, children)
  if celery_keep_ms == 0 or string.find(record[OPTIONS], '"keepResult":false', 1, true) then return end
  write_celery(id, status, result, traceback, nil, children)
end
local function exception_text(kind, message, module)
  return '{"exc_type": ' .. cjson.encode(kind) .. ', "exc_message": [' .. cjson.encode(message) .. '], "exc_module": "' .. module .. '"}'
end
local function python_exception(kind)
  if not string.find(kind, '^[%w_]+$') then return kind, 'outlast' end
  local module, name = string.match(' ArithmeticError=builtins.ArithmeticError AssertionError=builtins.AssertionError AttributeError=builtins.AttributeError BlockingIOError=builtins.BlockingIOError BrokenPipeError=builtins.BrokenPipeError BufferError=builtins.BufferError ChildProcessError=builtins.ChildProcessError ConnectionAbortedError=builtins.ConnectionAbortedError ConnectionError=builtins.ConnectionError ConnectionRefusedError=builtins.ConnectionRefusedError ConnectionResetError=builtins.ConnectionResetError EOFError=builtins.EOFError Exception=builtins.Exception FileExistsError=builtins.FileExistsError FileNotFoundError=builtins.FileNotFoundError FloatingPointError=builtins.FloatingPointError IOError=builtins.IOError ImportError=builtins.ImportError IndexError=builtins.IndexError InterruptedError=builtins.InterruptedError IsADirectoryError=builtins.IsADirectoryError KeyError=builtins.KeyError LookupError=builtins.LookupError MemoryError=builtins.MemoryError ModuleNotFoundError=builtins.ModuleNotFoundError NameError=builtins.NameError NotADirectoryError=builtins.NotADirectoryError NotImplementedError=builtins.NotImplementedError OSError=builtins.OSError OverflowError=builtins.OverflowError PermissionError=builtins.PermissionError ProcessLookupError=builtins.ProcessLookupError RecursionError=builtins.RecursionError ReferenceError=builtins.ReferenceError RuntimeError=builtins.RuntimeError SyntaxError=builtins.SyntaxError SystemError=builtins.SystemError TimeoutError=builtins.TimeoutError TypeError=builtins.TypeError UnicodeError=builtins.UnicodeError ValueError=builtins.ValueError ZeroDivisionError=builtins.ZeroDivisionError ChordError=celery.exceptions.ChordError ImproperlyConfigured=celery.exceptions.ImproperlyConfigured InvalidTaskError=celery.exceptions.InvalidTaskError MaxRetriesExceededError=celery.exceptions.MaxRetriesExceededError NotRegistered=celery.exceptions.NotRegistered QueueNotFound=celery.exceptions.QueueNotFound SecurityError=celery.exceptions.SecurityError TaskError=celery.exceptions.TaskError TaskRevokedError=celery.exceptions.TaskRevokedError SoftTimeLimitExceeded=billiard.exceptions.SoftTimeLimitExceeded TimeLimitExceeded=billiard.exceptions.TimeLimitExceeded WorkerLostError=billiard.exceptions.WorkerLostError ERR_TIMEOUT=billiard.exceptions.TimeLimitExceeded ERR_RESURRECTIONS_SPENT=billiard.exceptions.WorkerLostError ERR_TASK_UNKNOWN=celery.exceptions.NotRegistered ERR_UNDECODABLE=kombu.exceptions.DecodeError ERR_CHORD_UNCOUNTED=builtins.NotImplementedError ', ' ' .. kind .. '=([%w.]+)%.(%w+) ')
  return name or kind, module or 'outlast'
end
local function tell_celery_error(id, record, status, err)
  if celery_keep_ms == 0 then return end
  local is_read, read_error = pcall(cjson.decode, err)
  if not is_read then read_error = { type = 'Error', message = 'see the dead letter', traceback = '' } end
  local traceback = read_error.traceback ~= '' and cjson.encode(read_error.traceback) or 'null'
  local kind, module = python_exception(read_error.type)
  tell_celery(id, record, status, exception_text(kind, read_error.message, module), traceback)
end
local function tell_celery_revoked(id, record, why)
  tell_celery(id, record, 'REVOKED', exception_text('TaskRevokedError', why, 'celery.exceptions'), 'null')
end
read({ id })
local record = records[id]
if not record then return 3 end
if record[STATE] ~= 'w' or not is_aside(id) then return 2 end
if err == '' and (record[EPOCH] > 0 or redis.sha1hex(redis.call('GET', root .. 't:' .. id)) ~= mark) then return 2 end
leave_aside(id, record)
if err == '' then
  plan('UNLINK', root .. 't:' .. id, root .. 'b:' .. id)
else
  record[EPOCH] = record[EPOCH] + 1
  note(record, 'u', err)
  tell_celery_error(id, record, 'FAILURE', err)
  die(id, record, 'ERR_TASK_UNKNOWN', err)
  write(id, record)
end
flush()
return 1`,
  },
  ledgerAsideList: {
    sha: '26a37fbe69c759c63ae82cc330eabfd046ed9acf',
    text: `#!lua flags=no-writes
local root, limit, most_bytes, after_score, after_id = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local STATE, EPOCH, RUN, OWNER, SETTLED = 1, 2, 3, 4, 5
local NAME, QUEUE, PRIORITY, VERSION, DIGEST = 6, 7, 8, 9, 10
local ETA, EXPIRES, OPTIONS, BODY = 11, 12, 13, 14
local FAILURES, CRASHES, BUDGET, DUE, SEQ = 15, 16, 17, 18, 19
local CREATED, HISTORY, CHECKPOINT_EPOCH, CHECKPOINT_SEQ = 20, 21, 22, 23
local DEATHS, ENDING, ENDED, WHY, ERROR, RESULT, KEEP = 24, 25, 26, 27, 28, 29, 30
local tallied, kept, objectives = {}, {}, {}
local KEPT = { done = true, dead = true, expired = true, slow = true }
local function objective_of(name)
  if objectives[name] == nil then objectives[name] = redis.call('HGET', root .. 'objectives', name) end
  return objectives[name]
end
local function add_to(counts, key, figure, by)
  local own = counts[key] or {}
  counts[key] = own
  own[figure] = (own[figure] or 0) + by
end
local function tally(name, queue, figure, by, is_message)
  tallied[name] = tallied[name] or {}
  add_to(tallied[name], queue, figure, by)
  if KEPT[figure] and not is_message and objective_of(name) then add_to(kept, name, figure, by) end
end
local function sent_ms(id, created)
  local high, low = string.match(id, '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-7%x%x%x%-')
  return math.min(created, high and tonumber(high .. low, 16) or created)
end
local function is_slow(name, id, created, eta)
  local objective = objective_of(name)
  local within = objective and tonumber(string.match(objective, '^%S+ (%S+)'))
  return within and now_ms - math.max(sent_ms(id, created), eta or 0) > within
end
local MOST_SERIES, OTHER_NAME = 20000, '(other)'
local function write_tallies()
  local key = root .. 'tally'
  for name, queues in pairs(tallied) do
    for queue, figures in pairs(queues) do
      for figure, by in pairs(figures) do
        local field = cmsgpack.pack({ name, queue, figure })
        if redis.call('HLEN', key) >= MOST_SERIES and redis.call('HEXISTS', key, field) == 0 then
          field = cmsgpack.pack({ OTHER_NAME, OTHER_NAME, figure })
        end
        redis.call('HINCRBY', key, field, by)
      end
    end
  end
  local minute = string.format('%.0f', now_ms - now_ms % 60000)
  for name, figures in pairs(kept) do
    for figure, by in pairs(figures) do redis.call('HINCRBY', root .. 'slo:' .. name, figure .. ':' .. minute, by) end
  end
end
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
local SLICE = 2000
local function in_slices(list, call)
  for first = 1, #list, SLICE do call(first, math.min(first + SLICE - 1, #list)) end
end
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
  if record[KEEP] < 0 or #(record[BODY] or '') < 0 then return end
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
local function path_in(options)
  local from = string.find(options, '"path":"', 1, true)
  local path = from and string.match(options, '^"path":"%d+%.%d+"', from)
  return path and '{' .. path .. '}' or ''
end
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS] = '', path_in(record[OPTIONS])
  record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = 0, 0
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
  if ending == 'purged' then return end
  tally(record[NAME], record[QUEUE], ending, 1)
  if ending == 'done' and is_slow(record[NAME], id, record[CREATED], record[ETA]) then tally(record[NAME], record[QUEUE], 'slow', 1) end
end
local function die(id, record, why, err)
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
  tally(record[NAME], record[QUEUE], 'dead', 1, record[EPOCH] == 0)
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
  in_slices(pairs_of_keys, function(first, last) redis.call('MSET', unpack(pairs_of_keys, first, last)) end)
  for owner, ids in pairs(ended) do
    in_slices(ids, function(first, last) redis.call('HDEL', root .. 'r:' .. owner, unpack(ids, first, last)) end)
  end
  for queue, by in pairs(moved) do
    if redis.call('HINCRBY', root .. 'running', queue, by) < 0 then redis.call('HSET', root .. 'running', queue, 0) end
  end
  for name, by in pairs(counted) do redis.call('HINCRBY', root .. 'ended', name, by) end
  write_tallies()
  if #created > 0 then note_created() end
  if is_ready then redis.call('PUBLISH', root .. 'ready', '') end
end
local found, bytes = {}, 0
local from = 0
if after_id ~= '' then
  local rank = redis.call('ZRANK', root .. 'aside', after_id)
  from = rank and rank + 1 or redis.call('ZCOUNT', root .. 'aside', '-inf', '(' .. after_score)
end
local aside = redis.call('ZRANGE', root .. 'aside', from, from + limit - 1, 'WITHSCORES')
for place = 1, #aside, 2 do
  local id = aside[place]
  local raw = redis.call('GET', root .. 't:' .. id)
  local by = redis.call('HGET', root .. 'aside-by', id) or ''
  bytes = bytes + #(raw or '') + redis.call('STRLEN', root .. 'b:' .. id)
  if #found > 0 and bytes > most_bytes then return { { aside[place - 1], aside[place - 2] }, found } end
  local body = redis.call('GET', root .. 'b:' .. id)
  if raw and cmsgpack.unpack(raw)[DUE] <= now_ms then
    found[#found + 1] = { id, raw, body, math.max(0, now_ms - aside[place + 1]), by, redis.sha1hex(raw) }
  end
end
local last = #aside == 2 * limit and { aside[#aside], aside[#aside - 1] } or false
return { last, found }`,
  },
  ledgerBeginFull: {
    sha: '5da72c64afe41795213759c4c754bb3ee0d97670',
    text: `#!lua flags=allow-oom
local root = KEYS[1]
local worker, run, limit, suspects = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local known_generation, packed_budgets = tonumber(ARGV[5]), ARGV[7]
local celery_keep_ms, started, is_first, packed_runnable = tonumber(ARGV[9]), ARGV[11], ARGV[12], ARGV[13]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local function replication_id()
  local info = redis.pcall('INFO', 'replication')
  return type(info) == 'string' and string.match(info, 'master_replid:(%x+)') or 'unknown'
end
local STATE, EPOCH, RUN, OWNER, SETTLED = 1, 2, 3, 4, 5
local NAME, QUEUE, PRIORITY, VERSION, DIGEST = 6, 7, 8, 9, 10
local ETA, EXPIRES, OPTIONS, BODY = 11, 12, 13, 14
local FAILURES, CRASHES, BUDGET, DUE, SEQ = 15, 16, 17, 18, 19
local CREATED, HISTORY, CHECKPOINT_EPOCH, CHECKPOINT_SEQ = 20, 21, 22, 23
local DEATHS, ENDING, ENDED, WHY, ERROR, RESULT, KEEP = 24, 25, 26, 27, 28, 29, 30
local tallied, kept, objectives = {}, {}, {}
local KEPT = { done = true, dead = true, expired = true, slow = true }
local function objective_of(name)
  if objectives[name] == nil then objectives[name] = redis.call('HGET', root .. 'objectives', name) end
  return objectives[name]
end
local function add_to(counts, key, figure, by)
  local own = counts[key] or {}
  counts[key] = own
  own[figure] = (own[figure] or 0) + by
end
local function tally(name, queue, figure, by, is_message)
  tallied[name] = tallied[name] or {}
  add_to(tallied[name], queue, figure, by)
  if KEPT[figure] and not is_message and objective_of(name) then add_to(kept, name, figure, by) end
end
local function sent_ms(id, created)
  local high, low = string.match(id, '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-7%x%x%x%-')
  return math.min(created, high and tonumber(high .. low, 16) or created)
end
local function is_slow(name, id, created, eta)
  local objective = objective_of(name)
  local within = objective and tonumber(string.match(objective, '^%S+ (%S+)'))
  return within and now_ms - math.max(sent_ms(id, created), eta or 0) > within
end
local MOST_SERIES, OTHER_NAME = 20000, '(other)'
local function write_tallies()
  local key = root .. 'tally'
  for name, queues in pairs(tallied) do
    for queue, figures in pairs(queues) do
      for figure, by in pairs(figures) do
        local field = cmsgpack.pack({ name, queue, figure })
        if redis.call('HLEN', key) >= MOST_SERIES and redis.call('HEXISTS', key, field) == 0 then
          field = cmsgpack.pack({ OTHER_NAME, OTHER_NAME, figure })
        end
        redis.call('HINCRBY', key, field, by)
      end
    end
  end
  local minute = string.format('%.0f', now_ms - now_ms % 60000)
  for name, figures in pairs(kept) do
    for figure, by in pairs(figures) do redis.call('HINCRBY', root .. 'slo:' .. name, figure .. ':' .. minute, by) end
  end
end
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
local SLICE = 2000
local function in_slices(list, call)
  for first = 1, #list, SLICE do call(first, math.min(first + SLICE - 1, #list)) end
end
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
  if record[KEEP] < 0 or #(record[BODY] or '') < 0 then return end
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
local function path_in(options)
  local from = string.find(options, '"path":"', 1, true)
  local path = from and string.match(options, '^"path":"%d+%.%d+"', from)
  return path and '{' .. path .. '}' or ''
end
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS] = '', path_in(record[OPTIONS])
  record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = 0, 0
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
  if ending == 'purged' then return end
  tally(record[NAME], record[QUEUE], ending, 1)
  if ending == 'done' and is_slow(record[NAME], id, record[CREATED], record[ETA]) then tally(record[NAME], record[QUEUE], 'slow', 1) end
end
local function die(id, record, why, err)
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
  tally(record[NAME], record[QUEUE], 'dead', 1, record[EPOCH] == 0)
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
  in_slices(pairs_of_keys, function(first, last) redis.call('MSET', unpack(pairs_of_keys, first, last)) end)
  for owner, ids in pairs(ended) do
    in_slices(ids, function(first, last) redis.call('HDEL', root .. 'r:' .. owner, unpack(ids, first, last)) end)
  end
  for queue, by in pairs(moved) do
    if redis.call('HINCRBY', root .. 'running', queue, by) < 0 then redis.call('HSET', root .. 'running', queue, 0) end
  end
  for name, by in pairs(counted) do redis.call('HINCRBY', root .. 'ended', name, by) end
  write_tallies()
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
local function aside_set(queue, name)
  return root .. 'aside:' .. queue .. '\\n' .. name
end
local function set_aside(id, record, by)
  note(record, 'n')
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
local function write_celery(id, status, result, traceback, more, children)
  local key = 'celery-task-meta-' .. id
  local date = UNDER_WAY[status] and 'null' or iso_json()
  local shown = string.find(id, '^[%w-]+$') and id or string.sub(cjson.encode(id), 2, -2)
  local text = '{"status": "' .. status .. '", "result": ' .. result .. ', "traceback": ' .. traceback
    .. ', "children": ' .. (children or '[]') .. ', "date_done": ' .. date .. ', "task_id": "' .. shown .. '"' .. (more or '') .. '}'
  plan('SET', key, text, 'PXAT', digits(now_ms + celery_keep_ms))
  plan('PUBLISH', key, text)
end
local function tell_celery(id, record, status, result, traceback, children)
  if celery_keep_ms == 0 or string.find(record[OPTIONS], '"keepResult":false', 1, true) then return end
  write_celery(id, status, result, traceback, nil, children)
end
local function exception_text(kind, message, module)
  return '{"exc_type": ' .. cjson.encode(kind) .. ', "exc_message": [' .. cjson.encode(message) .. '], "exc_module": "' .. module .. '"}'
end
local function python_exception(kind)
  if not string.find(kind, '^[%w_]+$') then return kind, 'outlast' end
  local module, name = string.match(' ArithmeticError=builtins.ArithmeticError AssertionError=builtins.AssertionError AttributeError=builtins.AttributeError BlockingIOError=builtins.BlockingIOError BrokenPipeError=builtins.BrokenPipeError BufferError=builtins.BufferError ChildProcessError=builtins.ChildProcessError ConnectionAbortedError=builtins.ConnectionAbortedError ConnectionError=builtins.ConnectionError ConnectionRefusedError=builtins.ConnectionRefusedError ConnectionResetError=builtins.ConnectionResetError EOFError=builtins.EOFError Exception=builtins.Exception FileExistsError=builtins.FileExistsError FileNotFoundError=builtins.FileNotFoundError FloatingPointError=builtins.FloatingPointError IOError=builtins.IOError ImportError=builtins.ImportError IndexError=builtins.IndexError InterruptedError=builtins.InterruptedError IsADirectoryError=builtins.IsADirectoryError KeyError=builtins.KeyError LookupError=builtins.LookupError MemoryError=builtins.MemoryError ModuleNotFoundError=builtins.ModuleNotFoundError NameError=builtins.NameError NotADirectoryError=builtins.NotADirectoryError NotImplementedError=builtins.NotImplementedError OSError=builtins.OSError OverflowError=builtins.OverflowError PermissionError=builtins.PermissionError ProcessLookupError=builtins.ProcessLookupError RecursionError=builtins.RecursionError ReferenceError=builtins.ReferenceError RuntimeError=builtins.RuntimeError SyntaxError=builtins.SyntaxError SystemError=builtins.SystemError TimeoutError=builtins.TimeoutError TypeError=builtins.TypeError UnicodeError=builtins.UnicodeError ValueError=builtins.ValueError ZeroDivisionError=builtins.ZeroDivisionError ChordError=celery.exceptions.ChordError ImproperlyConfigured=celery.exceptions.ImproperlyConfigured InvalidTaskError=celery.exceptions.InvalidTaskError MaxRetriesExceededError=celery.exceptions.MaxRetriesExceededError NotRegistered=celery.exceptions.NotRegistered QueueNotFound=celery.exceptions.QueueNotFound SecurityError=celery.exceptions.SecurityError TaskError=celery.exceptions.TaskError TaskRevokedError=celery.exceptions.TaskRevokedError SoftTimeLimitExceeded=billiard.exceptions.SoftTimeLimitExceeded TimeLimitExceeded=billiard.exceptions.TimeLimitExceeded WorkerLostError=billiard.exceptions.WorkerLostError ERR_TIMEOUT=billiard.exceptions.TimeLimitExceeded ERR_RESURRECTIONS_SPENT=billiard.exceptions.WorkerLostError ERR_TASK_UNKNOWN=celery.exceptions.NotRegistered ERR_UNDECODABLE=kombu.exceptions.DecodeError ERR_CHORD_UNCOUNTED=builtins.NotImplementedError ', ' ' .. kind .. '=([%w.]+)%.(%w+) ')
  return name or kind, module or 'outlast'
end
local function tell_celery_error(id, record, status, err)
  if celery_keep_ms == 0 then return end
  local is_read, read_error = pcall(cjson.decode, err)
  if not is_read then read_error = { type = 'Error', message = 'see the dead letter', traceback = '' } end
  local traceback = read_error.traceback ~= '' and cjson.encode(read_error.traceback) or 'null'
  local kind, module = python_exception(read_error.type)
  tell_celery(id, record, status, exception_text(kind, read_error.message, module), traceback)
end
local function tell_celery_revoked(id, record, why)
  tell_celery(id, record, 'REVOKED', exception_text('TaskRevokedError', why, 'celery.exceptions'), 'null')
end
local MOST_EXPIRED, MOST_BYTES = 500, 8388608
local BEGUN, HELD, DONE, EXPIRED, CONFLICT, BEGUN_NEW = 1, 2, 3, 4, 5, 6
local handed, running_fields, fresh = {}, {}, {}
local of_messages, of_waiting, expired, refused = {}, {}, {}, {}
local looked, handed_bytes = 0, 0
local budgets
local runnable = packed_runnable ~= '' and cmsgpack.unpack(packed_runnable)
local MOST_REFUSED = 1000
local meta = redis.call('HMGET', root .. 'meta', 'generation', 'replication_id')
local function is_settled()
  return meta[1] and meta[2] == replication_id() and tonumber(meta[1]) >= known_generation
end
local function may_run(record)
  return suspects > 0 or not is_suspect(record)
end
local function can_run(record)
  return not runnable or record[VERSION] <= (runnable[record[NAME]] or -1)
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
    local packed_record, checkpoint = cmsgpack.pack(record), checkpoint_of(id, record)
    of_waiting[#of_waiting + 1] = { id, packed_record, body, checkpoint }
    handed_bytes = handed_bytes + #packed_record + #(body or '') + #(checkpoint or '')
  end
end
local kinds, ids, keys, kind_of, parts_of, expires_of, body_of, eta_of
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
local function keep_for_later(place, id, eta)
  local record = new_record(read_message(place), take_seq(#ids))
  note(record, 'a')
  wait(id, record, eta - now_ms)
  write(id, record)
  return HELD
end
local function answer(place)
  local id = ids[place]
  local record = records[id]
  if record then
    local is_copy = record[DIGEST] == read_parts(place)[1]
    local known = answer_known(place, id, record)
    if is_copy and (known == HELD or known == DONE) then tally(record[NAME], record[QUEUE], 'duplicates', 1) end
    return known
  end
  if fresh[id] then return read_parts(fresh[id])[1] == read_parts(place)[1] and BEGUN or CONFLICT end
  local expires, eta = expires_of[place], eta_of[place]
  if expires and expires <= now_ms then
    expire(id, new_record(read_message(place), take_seq(#ids)))
    return EXPIRED
  end
  if eta and eta > now_ms then return keep_for_later(place, id, eta) end
  return begin_new(place, id)
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
local function may_hand_more()
  return looked < MOST_EXPIRED and #refused < MOST_REFUSED and handed_bytes < MOST_BYTES
end
local function hand_one(id, record)
  if not record or record[STATE] ~= 'w' then
    if not record and redis.call('EXISTS', root .. 't:' .. id) == 1 then error('the record of a task is no string') end
    looked = looked + 1
    return 0
  end
  if is_over(record) then
    looked = looked + 1
    expired[#expired + 1] = { id, record[NAME], record[QUEUE] }
    expire(id, record)
    return 0
  end
  if not can_run(record) then
    refused[#refused + 1] = { id, record[NAME], record[QUEUE] }
    set_aside(id, record, worker)
    write(id, record)
    return 0
  end
  run_now(id, record)
  hand_waiting(id, record)
  return 1
end
local function hand_out(queue, suspected, most)
  promote(queue, suspected)
  local set, given, from = waiting_set(queue, suspected, false), 0, 0
  while given < most and may_hand_more() do
    local members = redis.call('ZRANGE', set, from, from + math.max(most - given, math.min(#refused, 100)) - 1)
    if #members == 0 then return given end
    from = from + #members
    local ids, going = {}, {}
    for place, member in ipairs(members) do ids[place] = string.sub(member, 12) end
    read(ids)
    for place, id in ipairs(ids) do
      if given >= most or not may_hand_more() then break end
      given = given + hand_one(id, records[id])
      going[place] = members[place]
    end
    plan('ZREM', set, unpack(going))
  end
  return given
end
local function hand_out_aside(queue, most)
  local given = 0
  if not runnable or redis.call('EXISTS', root .. 'aside-queue:' .. queue) == 0 then return 0 end
  for name in pairs(runnable) do
    if given >= most or not may_hand_more() then return given end
    local ids = redis.call('ZRANGEBYSCORE', aside_set(queue, name), '-inf', now_ms, 'LIMIT', 0, most - given + 100)
    read(ids)
    for _, id in ipairs(ids) do
      local record = records[id]
      if given >= most then break end
      if not record or record[STATE] ~= 'w' then
        plan('ZREM', aside_set(queue, name), id)
      elseif can_run(record) and may_run(record) then
        leave_aside(id, record)
        given = given + hand_one(id, record)
      end
    end
  end
  return given
end
local function set_suspects_aside(queue)
  if not runnable then return end
  promote(queue, true)
  local set = waiting_set(queue, true, false)
  local ids, members = {}, redis.call('ZRANGE', set, 0, 99)
  for place, member in ipairs(members) do ids[place] = string.sub(member, 12) end
  read(ids)
  for place, id in ipairs(ids) do
    local record = records[id]
    if record and record[STATE] == 'w' and not can_run(record) then
      plan('ZREM', set, members[place])
      hand_one(id, record)
    end
  end
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
    in_slices(going, function(first, last) plan('HDEL', pair[2], unpack(going, first, last)) end)
  end
end
local function begin(queues, messages, held_keys)
  if not redis.call('ZSCORE', root .. 'leases', worker) then return { 'closed' } end
  if not is_settled() then return { 'unsettled' } end
  local tags
  kinds, ids, kind_of, parts_of, expires_of, body_of, tags, eta_of = unpack(messages)
  local answers = {}
  local is_repeat = is_first == '' and take_again()
  keys = read(ids)
  for place in ipairs(ids) do answers[place] = answer(place) end
  if not is_repeat then
    local left = limit
    for _, queue in ipairs(queues) do
      if suspects <= 0 then
        set_suspects_aside(queue)
      elseif left > 0 then
        left = left - hand_out(queue, true, math.min(left, suspects))
      end
      if left > 0 then left = left - hand_out_aside(queue, left) end
      if left > 0 then left = left - hand_out(queue, false, left) end
    end
  end
  let_elements_go(answers, tags, held_keys)
  in_slices(running_fields, function(first, last)
    plan('HSET', root .. 'r:' .. worker, unpack(running_fields, first, last))
  end)
  flush()
  local next = #running_fields + #of_messages == 0 and next_due(queues) or false
  if next and #refused > 0 then next = 0 end
  return { 'open', answers, of_messages, of_waiting, expired, next, new_epoch(), now_ms, refused }
end
return begin(cmsgpack.unpack(ARGV[6]), cmsgpack.unpack(ARGV[8]), cmsgpack.unpack(ARGV[10]))`,
  },
  ledgerBegin: {
    sha: '0827549ab0a528d519869c4aefc771800d1b77d6',
    text: `#!lua
local root = KEYS[1]
local worker, run, limit, suspects = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local known_generation, packed_budgets = tonumber(ARGV[5]), ARGV[7]
local celery_keep_ms, started, is_first, packed_runnable = tonumber(ARGV[9]), ARGV[11], ARGV[12], ARGV[13]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local function replication_id()
  local info = redis.pcall('INFO', 'replication')
  return type(info) == 'string' and string.match(info, 'master_replid:(%x+)') or 'unknown'
end
local STATE, EPOCH, RUN, OWNER, SETTLED = 1, 2, 3, 4, 5
local NAME, QUEUE, PRIORITY, VERSION, DIGEST = 6, 7, 8, 9, 10
local ETA, EXPIRES, OPTIONS, BODY = 11, 12, 13, 14
local FAILURES, CRASHES, BUDGET, DUE, SEQ = 15, 16, 17, 18, 19
local CREATED, HISTORY, CHECKPOINT_EPOCH, CHECKPOINT_SEQ = 20, 21, 22, 23
local DEATHS, ENDING, ENDED, WHY, ERROR, RESULT, KEEP = 24, 25, 26, 27, 28, 29, 30
local tallied, kept, objectives = {}, {}, {}
local KEPT = { done = true, dead = true, expired = true, slow = true }
local function objective_of(name)
  if objectives[name] == nil then objectives[name] = redis.call('HGET', root .. 'objectives', name) end
  return objectives[name]
end
local function add_to(counts, key, figure, by)
  local own = counts[key] or {}
  counts[key] = own
  own[figure] = (own[figure] or 0) + by
end
local function tally(name, queue, figure, by, is_message)
  tallied[name] = tallied[name] or {}
  add_to(tallied[name], queue, figure, by)
  if KEPT[figure] and not is_message and objective_of(name) then add_to(kept, name, figure, by) end
end
local function sent_ms(id, created)
  local high, low = string.match(id, '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-7%x%x%x%-')
  return math.min(created, high and tonumber(high .. low, 16) or created)
end
local function is_slow(name, id, created, eta)
  local objective = objective_of(name)
  local within = objective and tonumber(string.match(objective, '^%S+ (%S+)'))
  return within and now_ms - math.max(sent_ms(id, created), eta or 0) > within
end
local MOST_SERIES, OTHER_NAME = 20000, '(other)'
local function write_tallies()
  local key = root .. 'tally'
  for name, queues in pairs(tallied) do
    for queue, figures in pairs(queues) do
      for figure, by in pairs(figures) do
        local field = cmsgpack.pack({ name, queue, figure })
        if redis.call('HLEN', key) >= MOST_SERIES and redis.call('HEXISTS', key, field) == 0 then
          field = cmsgpack.pack({ OTHER_NAME, OTHER_NAME, figure })
        end
        redis.call('HINCRBY', key, field, by)
      end
    end
  end
  local minute = string.format('%.0f', now_ms - now_ms % 60000)
  for name, figures in pairs(kept) do
    for figure, by in pairs(figures) do redis.call('HINCRBY', root .. 'slo:' .. name, figure .. ':' .. minute, by) end
  end
end
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
local SLICE = 2000
local function in_slices(list, call)
  for first = 1, #list, SLICE do call(first, math.min(first + SLICE - 1, #list)) end
end
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
  if record[KEEP] < 0 or #(record[BODY] or '') < 0 then return end
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
local function path_in(options)
  local from = string.find(options, '"path":"', 1, true)
  local path = from and string.match(options, '^"path":"%d+%.%d+"', from)
  return path and '{' .. path .. '}' or ''
end
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS] = '', path_in(record[OPTIONS])
  record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = 0, 0
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
  if ending == 'purged' then return end
  tally(record[NAME], record[QUEUE], ending, 1)
  if ending == 'done' and is_slow(record[NAME], id, record[CREATED], record[ETA]) then tally(record[NAME], record[QUEUE], 'slow', 1) end
end
local function die(id, record, why, err)
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
  tally(record[NAME], record[QUEUE], 'dead', 1, record[EPOCH] == 0)
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
  in_slices(pairs_of_keys, function(first, last) redis.call('MSET', unpack(pairs_of_keys, first, last)) end)
  for owner, ids in pairs(ended) do
    in_slices(ids, function(first, last) redis.call('HDEL', root .. 'r:' .. owner, unpack(ids, first, last)) end)
  end
  for queue, by in pairs(moved) do
    if redis.call('HINCRBY', root .. 'running', queue, by) < 0 then redis.call('HSET', root .. 'running', queue, 0) end
  end
  for name, by in pairs(counted) do redis.call('HINCRBY', root .. 'ended', name, by) end
  write_tallies()
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
local function aside_set(queue, name)
  return root .. 'aside:' .. queue .. '\\n' .. name
end
local function set_aside(id, record, by)
  note(record, 'n')
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
local function write_celery(id, status, result, traceback, more, children)
  local key = 'celery-task-meta-' .. id
  local date = UNDER_WAY[status] and 'null' or iso_json()
  local shown = string.find(id, '^[%w-]+$') and id or string.sub(cjson.encode(id), 2, -2)
  local text = '{"status": "' .. status .. '", "result": ' .. result .. ', "traceback": ' .. traceback
    .. ', "children": ' .. (children or '[]') .. ', "date_done": ' .. date .. ', "task_id": "' .. shown .. '"' .. (more or '') .. '}'
  plan('SET', key, text, 'PXAT', digits(now_ms + celery_keep_ms))
  plan('PUBLISH', key, text)
end
local function tell_celery(id, record, status, result, traceback, children)
  if celery_keep_ms == 0 or string.find(record[OPTIONS], '"keepResult":false', 1, true) then return end
  write_celery(id, status, result, traceback, nil, children)
end
local function exception_text(kind, message, module)
  return '{"exc_type": ' .. cjson.encode(kind) .. ', "exc_message": [' .. cjson.encode(message) .. '], "exc_module": "' .. module .. '"}'
end
local function python_exception(kind)
  if not string.find(kind, '^[%w_]+$') then return kind, 'outlast' end
  local module, name = string.match(' ArithmeticError=builtins.ArithmeticError AssertionError=builtins.AssertionError AttributeError=builtins.AttributeError BlockingIOError=builtins.BlockingIOError BrokenPipeError=builtins.BrokenPipeError BufferError=builtins.BufferError ChildProcessError=builtins.ChildProcessError ConnectionAbortedError=builtins.ConnectionAbortedError ConnectionError=builtins.ConnectionError ConnectionRefusedError=builtins.ConnectionRefusedError ConnectionResetError=builtins.ConnectionResetError EOFError=builtins.EOFError Exception=builtins.Exception FileExistsError=builtins.FileExistsError FileNotFoundError=builtins.FileNotFoundError FloatingPointError=builtins.FloatingPointError IOError=builtins.IOError ImportError=builtins.ImportError IndexError=builtins.IndexError InterruptedError=builtins.InterruptedError IsADirectoryError=builtins.IsADirectoryError KeyError=builtins.KeyError LookupError=builtins.LookupError MemoryError=builtins.MemoryError ModuleNotFoundError=builtins.ModuleNotFoundError NameError=builtins.NameError NotADirectoryError=builtins.NotADirectoryError NotImplementedError=builtins.NotImplementedError OSError=builtins.OSError OverflowError=builtins.OverflowError PermissionError=builtins.PermissionError ProcessLookupError=builtins.ProcessLookupError RecursionError=builtins.RecursionError ReferenceError=builtins.ReferenceError RuntimeError=builtins.RuntimeError SyntaxError=builtins.SyntaxError SystemError=builtins.SystemError TimeoutError=builtins.TimeoutError TypeError=builtins.TypeError UnicodeError=builtins.UnicodeError ValueError=builtins.ValueError ZeroDivisionError=builtins.ZeroDivisionError ChordError=celery.exceptions.ChordError ImproperlyConfigured=celery.exceptions.ImproperlyConfigured InvalidTaskError=celery.exceptions.InvalidTaskError MaxRetriesExceededError=celery.exceptions.MaxRetriesExceededError NotRegistered=celery.exceptions.NotRegistered QueueNotFound=celery.exceptions.QueueNotFound SecurityError=celery.exceptions.SecurityError TaskError=celery.exceptions.TaskError TaskRevokedError=celery.exceptions.TaskRevokedError SoftTimeLimitExceeded=billiard.exceptions.SoftTimeLimitExceeded TimeLimitExceeded=billiard.exceptions.TimeLimitExceeded WorkerLostError=billiard.exceptions.WorkerLostError ERR_TIMEOUT=billiard.exceptions.TimeLimitExceeded ERR_RESURRECTIONS_SPENT=billiard.exceptions.WorkerLostError ERR_TASK_UNKNOWN=celery.exceptions.NotRegistered ERR_UNDECODABLE=kombu.exceptions.DecodeError ERR_CHORD_UNCOUNTED=builtins.NotImplementedError ', ' ' .. kind .. '=([%w.]+)%.(%w+) ')
  return name or kind, module or 'outlast'
end
local function tell_celery_error(id, record, status, err)
  if celery_keep_ms == 0 then return end
  local is_read, read_error = pcall(cjson.decode, err)
  if not is_read then read_error = { type = 'Error', message = 'see the dead letter', traceback = '' } end
  local traceback = read_error.traceback ~= '' and cjson.encode(read_error.traceback) or 'null'
  local kind, module = python_exception(read_error.type)
  tell_celery(id, record, status, exception_text(kind, read_error.message, module), traceback)
end
local function tell_celery_revoked(id, record, why)
  tell_celery(id, record, 'REVOKED', exception_text('TaskRevokedError', why, 'celery.exceptions'), 'null')
end
local MOST_EXPIRED, MOST_BYTES = 500, 8388608
local BEGUN, HELD, DONE, EXPIRED, CONFLICT, BEGUN_NEW = 1, 2, 3, 4, 5, 6
local handed, running_fields, fresh = {}, {}, {}
local of_messages, of_waiting, expired, refused = {}, {}, {}, {}
local looked, handed_bytes = 0, 0
local budgets
local runnable = packed_runnable ~= '' and cmsgpack.unpack(packed_runnable)
local MOST_REFUSED = 1000
local meta = redis.call('HMGET', root .. 'meta', 'generation', 'replication_id')
local function is_settled()
  return meta[1] and meta[2] == replication_id() and tonumber(meta[1]) >= known_generation
end
local function may_run(record)
  return suspects > 0 or not is_suspect(record)
end
local function can_run(record)
  return not runnable or record[VERSION] <= (runnable[record[NAME]] or -1)
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
    local packed_record, checkpoint = cmsgpack.pack(record), checkpoint_of(id, record)
    of_waiting[#of_waiting + 1] = { id, packed_record, body, checkpoint }
    handed_bytes = handed_bytes + #packed_record + #(body or '') + #(checkpoint or '')
  end
end
local kinds, ids, keys, kind_of, parts_of, expires_of, body_of, eta_of
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
local function keep_for_later(place, id, eta)
  local record = new_record(read_message(place), take_seq(#ids))
  note(record, 'a')
  wait(id, record, eta - now_ms)
  write(id, record)
  return HELD
end
local function answer(place)
  local id = ids[place]
  local record = records[id]
  if record then
    local is_copy = record[DIGEST] == read_parts(place)[1]
    local known = answer_known(place, id, record)
    if is_copy and (known == HELD or known == DONE) then tally(record[NAME], record[QUEUE], 'duplicates', 1) end
    return known
  end
  if fresh[id] then return read_parts(fresh[id])[1] == read_parts(place)[1] and BEGUN or CONFLICT end
  local expires, eta = expires_of[place], eta_of[place]
  if expires and expires <= now_ms then
    expire(id, new_record(read_message(place), take_seq(#ids)))
    return EXPIRED
  end
  if eta and eta > now_ms then return keep_for_later(place, id, eta) end
  return begin_new(place, id)
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
local function may_hand_more()
  return looked < MOST_EXPIRED and #refused < MOST_REFUSED and handed_bytes < MOST_BYTES
end
local function hand_one(id, record)
  if not record or record[STATE] ~= 'w' then
    if not record and redis.call('EXISTS', root .. 't:' .. id) == 1 then error('the record of a task is no string') end
    looked = looked + 1
    return 0
  end
  if is_over(record) then
    looked = looked + 1
    expired[#expired + 1] = { id, record[NAME], record[QUEUE] }
    expire(id, record)
    return 0
  end
  if not can_run(record) then
    refused[#refused + 1] = { id, record[NAME], record[QUEUE] }
    set_aside(id, record, worker)
    write(id, record)
    return 0
  end
  run_now(id, record)
  hand_waiting(id, record)
  return 1
end
local function hand_out(queue, suspected, most)
  promote(queue, suspected)
  local set, given, from = waiting_set(queue, suspected, false), 0, 0
  while given < most and may_hand_more() do
    local members = redis.call('ZRANGE', set, from, from + math.max(most - given, math.min(#refused, 100)) - 1)
    if #members == 0 then return given end
    from = from + #members
    local ids, going = {}, {}
    for place, member in ipairs(members) do ids[place] = string.sub(member, 12) end
    read(ids)
    for place, id in ipairs(ids) do
      if given >= most or not may_hand_more() then break end
      given = given + hand_one(id, records[id])
      going[place] = members[place]
    end
    plan('ZREM', set, unpack(going))
  end
  return given
end
local function hand_out_aside(queue, most)
  local given = 0
  if not runnable or redis.call('EXISTS', root .. 'aside-queue:' .. queue) == 0 then return 0 end
  for name in pairs(runnable) do
    if given >= most or not may_hand_more() then return given end
    local ids = redis.call('ZRANGEBYSCORE', aside_set(queue, name), '-inf', now_ms, 'LIMIT', 0, most - given + 100)
    read(ids)
    for _, id in ipairs(ids) do
      local record = records[id]
      if given >= most then break end
      if not record or record[STATE] ~= 'w' then
        plan('ZREM', aside_set(queue, name), id)
      elseif can_run(record) and may_run(record) then
        leave_aside(id, record)
        given = given + hand_one(id, record)
      end
    end
  end
  return given
end
local function set_suspects_aside(queue)
  if not runnable then return end
  promote(queue, true)
  local set = waiting_set(queue, true, false)
  local ids, members = {}, redis.call('ZRANGE', set, 0, 99)
  for place, member in ipairs(members) do ids[place] = string.sub(member, 12) end
  read(ids)
  for place, id in ipairs(ids) do
    local record = records[id]
    if record and record[STATE] == 'w' and not can_run(record) then
      plan('ZREM', set, members[place])
      hand_one(id, record)
    end
  end
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
    in_slices(going, function(first, last) plan('HDEL', pair[2], unpack(going, first, last)) end)
  end
end
local function begin(queues, messages, held_keys)
  if not redis.call('ZSCORE', root .. 'leases', worker) then return { 'closed' } end
  if not is_settled() then return { 'unsettled' } end
  local tags
  kinds, ids, kind_of, parts_of, expires_of, body_of, tags, eta_of = unpack(messages)
  local answers = {}
  local is_repeat = is_first == '' and take_again()
  keys = read(ids)
  for place in ipairs(ids) do answers[place] = answer(place) end
  if not is_repeat then
    local left = limit
    for _, queue in ipairs(queues) do
      if suspects <= 0 then
        set_suspects_aside(queue)
      elseif left > 0 then
        left = left - hand_out(queue, true, math.min(left, suspects))
      end
      if left > 0 then left = left - hand_out_aside(queue, left) end
      if left > 0 then left = left - hand_out(queue, false, left) end
    end
  end
  let_elements_go(answers, tags, held_keys)
  in_slices(running_fields, function(first, last)
    plan('HSET', root .. 'r:' .. worker, unpack(running_fields, first, last))
  end)
  flush()
  local next = #running_fields + #of_messages == 0 and next_due(queues) or false
  if next and #refused > 0 then next = 0 end
  return { 'open', answers, of_messages, of_waiting, expired, next, new_epoch(), now_ms, refused }
end
return begin(cmsgpack.unpack(ARGV[6]), cmsgpack.unpack(ARGV[8]), cmsgpack.unpack(ARGV[10]))`,
  },
  ledgerBuryMessages: {
    sha: '85696849be402ce86362fc2e0fc8518e28b828e3',
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
local tallied, kept, objectives = {}, {}, {}
local KEPT = { done = true, dead = true, expired = true, slow = true }
local function objective_of(name)
  if objectives[name] == nil then objectives[name] = redis.call('HGET', root .. 'objectives', name) end
  return objectives[name]
end
local function add_to(counts, key, figure, by)
  local own = counts[key] or {}
  counts[key] = own
  own[figure] = (own[figure] or 0) + by
end
local function tally(name, queue, figure, by, is_message)
  tallied[name] = tallied[name] or {}
  add_to(tallied[name], queue, figure, by)
  if KEPT[figure] and not is_message and objective_of(name) then add_to(kept, name, figure, by) end
end
local function sent_ms(id, created)
  local high, low = string.match(id, '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-7%x%x%x%-')
  return math.min(created, high and tonumber(high .. low, 16) or created)
end
local function is_slow(name, id, created, eta)
  local objective = objective_of(name)
  local within = objective and tonumber(string.match(objective, '^%S+ (%S+)'))
  return within and now_ms - math.max(sent_ms(id, created), eta or 0) > within
end
local MOST_SERIES, OTHER_NAME = 20000, '(other)'
local function write_tallies()
  local key = root .. 'tally'
  for name, queues in pairs(tallied) do
    for queue, figures in pairs(queues) do
      for figure, by in pairs(figures) do
        local field = cmsgpack.pack({ name, queue, figure })
        if redis.call('HLEN', key) >= MOST_SERIES and redis.call('HEXISTS', key, field) == 0 then
          field = cmsgpack.pack({ OTHER_NAME, OTHER_NAME, figure })
        end
        redis.call('HINCRBY', key, field, by)
      end
    end
  end
  local minute = string.format('%.0f', now_ms - now_ms % 60000)
  for name, figures in pairs(kept) do
    for figure, by in pairs(figures) do redis.call('HINCRBY', root .. 'slo:' .. name, figure .. ':' .. minute, by) end
  end
end
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
local SLICE = 2000
local function in_slices(list, call)
  for first = 1, #list, SLICE do call(first, math.min(first + SLICE - 1, #list)) end
end
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
  if record[KEEP] < 0 or #(record[BODY] or '') < 0 then return end
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
local function path_in(options)
  local from = string.find(options, '"path":"', 1, true)
  local path = from and string.match(options, '^"path":"%d+%.%d+"', from)
  return path and '{' .. path .. '}' or ''
end
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS] = '', path_in(record[OPTIONS])
  record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = 0, 0
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
  if ending == 'purged' then return end
  tally(record[NAME], record[QUEUE], ending, 1)
  if ending == 'done' and is_slow(record[NAME], id, record[CREATED], record[ETA]) then tally(record[NAME], record[QUEUE], 'slow', 1) end
end
local function die(id, record, why, err)
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
  tally(record[NAME], record[QUEUE], 'dead', 1, record[EPOCH] == 0)
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
  in_slices(pairs_of_keys, function(first, last) redis.call('MSET', unpack(pairs_of_keys, first, last)) end)
  for owner, ids in pairs(ended) do
    in_slices(ids, function(first, last) redis.call('HDEL', root .. 'r:' .. owner, unpack(ids, first, last)) end)
  end
  for queue, by in pairs(moved) do
    if redis.call('HINCRBY', root .. 'running', queue, by) < 0 then redis.call('HSET', root .. 'running', queue, 0) end
  end
  for name, by in pairs(counted) do redis.call('HINCRBY', root .. 'ended', name, by) end
  write_tallies()
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
    sha: 'c49e5ed37c02babed0371df6f75bae7caaff1f23',
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
local tallied, kept, objectives = {}, {}, {}
local KEPT = { done = true, dead = true, expired = true, slow = true }
local function objective_of(name)
  if objectives[name] == nil then objectives[name] = redis.call('HGET', root .. 'objectives', name) end
  return objectives[name]
end
local function add_to(counts, key, figure, by)
  local own = counts[key] or {}
  counts[key] = own
  own[figure] = (own[figure] or 0) + by
end
local function tally(name, queue, figure, by, is_message)
  tallied[name] = tallied[name] or {}
  add_to(tallied[name], queue, figure, by)
  if KEPT[figure] and not is_message and objective_of(name) then add_to(kept, name, figure, by) end
end
local function sent_ms(id, created)
  local high, low = string.match(id, '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-7%x%x%x%-')
  return math.min(created, high and tonumber(high .. low, 16) or created)
end
local function is_slow(name, id, created, eta)
  local objective = objective_of(name)
  local within = objective and tonumber(string.match(objective, '^%S+ (%S+)'))
  return within and now_ms - math.max(sent_ms(id, created), eta or 0) > within
end
local MOST_SERIES, OTHER_NAME = 20000, '(other)'
local function write_tallies()
  local key = root .. 'tally'
  for name, queues in pairs(tallied) do
    for queue, figures in pairs(queues) do
      for figure, by in pairs(figures) do
        local field = cmsgpack.pack({ name, queue, figure })
        if redis.call('HLEN', key) >= MOST_SERIES and redis.call('HEXISTS', key, field) == 0 then
          field = cmsgpack.pack({ OTHER_NAME, OTHER_NAME, figure })
        end
        redis.call('HINCRBY', key, field, by)
      end
    end
  end
  local minute = string.format('%.0f', now_ms - now_ms % 60000)
  for name, figures in pairs(kept) do
    for figure, by in pairs(figures) do redis.call('HINCRBY', root .. 'slo:' .. name, figure .. ':' .. minute, by) end
  end
end
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
local SLICE = 2000
local function in_slices(list, call)
  for first = 1, #list, SLICE do call(first, math.min(first + SLICE - 1, #list)) end
end
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
  if record[KEEP] < 0 or #(record[BODY] or '') < 0 then return end
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
local function path_in(options)
  local from = string.find(options, '"path":"', 1, true)
  local path = from and string.match(options, '^"path":"%d+%.%d+"', from)
  return path and '{' .. path .. '}' or ''
end
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS] = '', path_in(record[OPTIONS])
  record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = 0, 0
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
  if ending == 'purged' then return end
  tally(record[NAME], record[QUEUE], ending, 1)
  if ending == 'done' and is_slow(record[NAME], id, record[CREATED], record[ETA]) then tally(record[NAME], record[QUEUE], 'slow', 1) end
end
local function die(id, record, why, err)
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
  tally(record[NAME], record[QUEUE], 'dead', 1, record[EPOCH] == 0)
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
  in_slices(pairs_of_keys, function(first, last) redis.call('MSET', unpack(pairs_of_keys, first, last)) end)
  for owner, ids in pairs(ended) do
    in_slices(ids, function(first, last) redis.call('HDEL', root .. 'r:' .. owner, unpack(ids, first, last)) end)
  end
  for queue, by in pairs(moved) do
    if redis.call('HINCRBY', root .. 'running', queue, by) < 0 then redis.call('HSET', root .. 'running', queue, 0) end
  end
  for name, by in pairs(counted) do redis.call('HINCRBY', root .. 'ended', name, by) end
  write_tallies()
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
local function write_celery(id, status, result, traceback, more, children)
  local key = 'celery-task-meta-' .. id
  local date = UNDER_WAY[status] and 'null' or iso_json()
  local shown = string.find(id, '^[%w-]+$') and id or string.sub(cjson.encode(id), 2, -2)
  local text = '{"status": "' .. status .. '", "result": ' .. result .. ', "traceback": ' .. traceback
    .. ', "children": ' .. (children or '[]') .. ', "date_done": ' .. date .. ', "task_id": "' .. shown .. '"' .. (more or '') .. '}'
  plan('SET', key, text, 'PXAT', digits(now_ms + celery_keep_ms))
  plan('PUBLISH', key, text)
end
local function tell_celery(id, record, status, result, traceback, children)
  if celery_keep_ms == 0 or string.find(record[OPTIONS], '"keepResult":false', 1, true) then return end
  write_celery(id, status, result, traceback, nil, children)
end
local function exception_text(kind, message, module)
  return '{"exc_type": ' .. cjson.encode(kind) .. ', "exc_message": [' .. cjson.encode(message) .. '], "exc_module": "' .. module .. '"}'
end
local function python_exception(kind)
  if not string.find(kind, '^[%w_]+$') then return kind, 'outlast' end
  local module, name = string.match(' ArithmeticError=builtins.ArithmeticError AssertionError=builtins.AssertionError AttributeError=builtins.AttributeError BlockingIOError=builtins.BlockingIOError BrokenPipeError=builtins.BrokenPipeError BufferError=builtins.BufferError ChildProcessError=builtins.ChildProcessError ConnectionAbortedError=builtins.ConnectionAbortedError ConnectionError=builtins.ConnectionError ConnectionRefusedError=builtins.ConnectionRefusedError ConnectionResetError=builtins.ConnectionResetError EOFError=builtins.EOFError Exception=builtins.Exception FileExistsError=builtins.FileExistsError FileNotFoundError=builtins.FileNotFoundError FloatingPointError=builtins.FloatingPointError IOError=builtins.IOError ImportError=builtins.ImportError IndexError=builtins.IndexError InterruptedError=builtins.InterruptedError IsADirectoryError=builtins.IsADirectoryError KeyError=builtins.KeyError LookupError=builtins.LookupError MemoryError=builtins.MemoryError ModuleNotFoundError=builtins.ModuleNotFoundError NameError=builtins.NameError NotADirectoryError=builtins.NotADirectoryError NotImplementedError=builtins.NotImplementedError OSError=builtins.OSError OverflowError=builtins.OverflowError PermissionError=builtins.PermissionError ProcessLookupError=builtins.ProcessLookupError RecursionError=builtins.RecursionError ReferenceError=builtins.ReferenceError RuntimeError=builtins.RuntimeError SyntaxError=builtins.SyntaxError SystemError=builtins.SystemError TimeoutError=builtins.TimeoutError TypeError=builtins.TypeError UnicodeError=builtins.UnicodeError ValueError=builtins.ValueError ZeroDivisionError=builtins.ZeroDivisionError ChordError=celery.exceptions.ChordError ImproperlyConfigured=celery.exceptions.ImproperlyConfigured InvalidTaskError=celery.exceptions.InvalidTaskError MaxRetriesExceededError=celery.exceptions.MaxRetriesExceededError NotRegistered=celery.exceptions.NotRegistered QueueNotFound=celery.exceptions.QueueNotFound SecurityError=celery.exceptions.SecurityError TaskError=celery.exceptions.TaskError TaskRevokedError=celery.exceptions.TaskRevokedError SoftTimeLimitExceeded=billiard.exceptions.SoftTimeLimitExceeded TimeLimitExceeded=billiard.exceptions.TimeLimitExceeded WorkerLostError=billiard.exceptions.WorkerLostError ERR_TIMEOUT=billiard.exceptions.TimeLimitExceeded ERR_RESURRECTIONS_SPENT=billiard.exceptions.WorkerLostError ERR_TASK_UNKNOWN=celery.exceptions.NotRegistered ERR_UNDECODABLE=kombu.exceptions.DecodeError ERR_CHORD_UNCOUNTED=builtins.NotImplementedError ', ' ' .. kind .. '=([%w.]+)%.(%w+) ')
  return name or kind, module or 'outlast'
end
local function tell_celery_error(id, record, status, err)
  if celery_keep_ms == 0 then return end
  local is_read, read_error = pcall(cjson.decode, err)
  if not is_read then read_error = { type = 'Error', message = 'see the dead letter', traceback = '' } end
  local traceback = read_error.traceback ~= '' and cjson.encode(read_error.traceback) or 'null'
  local kind, module = python_exception(read_error.type)
  tell_celery(id, record, status, exception_text(kind, read_error.message, module), traceback)
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
    local mark = step .. ' ' .. run
    if not record then
      statuses[place] = 3
    elseif record[STATE] == 'r' and record[EPOCH] == epoch and record[RUN] == run then
      record[SETTLED] = mark
      let_go(id, record)
      apply(id, record, item)
      write(id, record)
      statuses[place] = 1
    else
      statuses[place] = record[SETTLED] == mark and 1 or 2
      if statuses[place] == 2 and step == 'c' then tally(record[NAME], record[QUEUE], 'stale', 1) end
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
    sha: '4b66829a10584551ccfe80e74821bdc6b1591860',
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
local tallied, kept, objectives = {}, {}, {}
local KEPT = { done = true, dead = true, expired = true, slow = true }
local function objective_of(name)
  if objectives[name] == nil then objectives[name] = redis.call('HGET', root .. 'objectives', name) end
  return objectives[name]
end
local function add_to(counts, key, figure, by)
  local own = counts[key] or {}
  counts[key] = own
  own[figure] = (own[figure] or 0) + by
end
local function tally(name, queue, figure, by, is_message)
  tallied[name] = tallied[name] or {}
  add_to(tallied[name], queue, figure, by)
  if KEPT[figure] and not is_message and objective_of(name) then add_to(kept, name, figure, by) end
end
local function sent_ms(id, created)
  local high, low = string.match(id, '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-7%x%x%x%-')
  return math.min(created, high and tonumber(high .. low, 16) or created)
end
local function is_slow(name, id, created, eta)
  local objective = objective_of(name)
  local within = objective and tonumber(string.match(objective, '^%S+ (%S+)'))
  return within and now_ms - math.max(sent_ms(id, created), eta or 0) > within
end
local MOST_SERIES, OTHER_NAME = 20000, '(other)'
local function write_tallies()
  local key = root .. 'tally'
  for name, queues in pairs(tallied) do
    for queue, figures in pairs(queues) do
      for figure, by in pairs(figures) do
        local field = cmsgpack.pack({ name, queue, figure })
        if redis.call('HLEN', key) >= MOST_SERIES and redis.call('HEXISTS', key, field) == 0 then
          field = cmsgpack.pack({ OTHER_NAME, OTHER_NAME, figure })
        end
        redis.call('HINCRBY', key, field, by)
      end
    end
  end
  local minute = string.format('%.0f', now_ms - now_ms % 60000)
  for name, figures in pairs(kept) do
    for figure, by in pairs(figures) do redis.call('HINCRBY', root .. 'slo:' .. name, figure .. ':' .. minute, by) end
  end
end
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
local SLICE = 2000
local function in_slices(list, call)
  for first = 1, #list, SLICE do call(first, math.min(first + SLICE - 1, #list)) end
end
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
  if record[KEEP] < 0 or #(record[BODY] or '') < 0 then return end
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
local function path_in(options)
  local from = string.find(options, '"path":"', 1, true)
  local path = from and string.match(options, '^"path":"%d+%.%d+"', from)
  return path and '{' .. path .. '}' or ''
end
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS] = '', path_in(record[OPTIONS])
  record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = 0, 0
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
  if ending == 'purged' then return end
  tally(record[NAME], record[QUEUE], ending, 1)
  if ending == 'done' and is_slow(record[NAME], id, record[CREATED], record[ETA]) then tally(record[NAME], record[QUEUE], 'slow', 1) end
end
local function die(id, record, why, err)
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
  tally(record[NAME], record[QUEUE], 'dead', 1, record[EPOCH] == 0)
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
  in_slices(pairs_of_keys, function(first, last) redis.call('MSET', unpack(pairs_of_keys, first, last)) end)
  for owner, ids in pairs(ended) do
    in_slices(ids, function(first, last) redis.call('HDEL', root .. 'r:' .. owner, unpack(ids, first, last)) end)
  end
  for queue, by in pairs(moved) do
    if redis.call('HINCRBY', root .. 'running', queue, by) < 0 then redis.call('HSET', root .. 'running', queue, 0) end
  end
  for name, by in pairs(counted) do redis.call('HINCRBY', root .. 'ended', name, by) end
  write_tallies()
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
local function aside_set(queue, name)
  return root .. 'aside:' .. queue .. '\\n' .. name
end
local function set_aside(id, record, by)
  note(record, 'n')
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
local function write_celery(id, status, result, traceback, more, children)
  local key = 'celery-task-meta-' .. id
  local date = UNDER_WAY[status] and 'null' or iso_json()
  local shown = string.find(id, '^[%w-]+$') and id or string.sub(cjson.encode(id), 2, -2)
  local text = '{"status": "' .. status .. '", "result": ' .. result .. ', "traceback": ' .. traceback
    .. ', "children": ' .. (children or '[]') .. ', "date_done": ' .. date .. ', "task_id": "' .. shown .. '"' .. (more or '') .. '}'
  plan('SET', key, text, 'PXAT', digits(now_ms + celery_keep_ms))
  plan('PUBLISH', key, text)
end
local function tell_celery(id, record, status, result, traceback, children)
  if celery_keep_ms == 0 or string.find(record[OPTIONS], '"keepResult":false', 1, true) then return end
  write_celery(id, status, result, traceback, nil, children)
end
local function exception_text(kind, message, module)
  return '{"exc_type": ' .. cjson.encode(kind) .. ', "exc_message": [' .. cjson.encode(message) .. '], "exc_module": "' .. module .. '"}'
end
local function python_exception(kind)
  if not string.find(kind, '^[%w_]+$') then return kind, 'outlast' end
  local module, name = string.match(' ArithmeticError=builtins.ArithmeticError AssertionError=builtins.AssertionError AttributeError=builtins.AttributeError BlockingIOError=builtins.BlockingIOError BrokenPipeError=builtins.BrokenPipeError BufferError=builtins.BufferError ChildProcessError=builtins.ChildProcessError ConnectionAbortedError=builtins.ConnectionAbortedError ConnectionError=builtins.ConnectionError ConnectionRefusedError=builtins.ConnectionRefusedError ConnectionResetError=builtins.ConnectionResetError EOFError=builtins.EOFError Exception=builtins.Exception FileExistsError=builtins.FileExistsError FileNotFoundError=builtins.FileNotFoundError FloatingPointError=builtins.FloatingPointError IOError=builtins.IOError ImportError=builtins.ImportError IndexError=builtins.IndexError InterruptedError=builtins.InterruptedError IsADirectoryError=builtins.IsADirectoryError KeyError=builtins.KeyError LookupError=builtins.LookupError MemoryError=builtins.MemoryError ModuleNotFoundError=builtins.ModuleNotFoundError NameError=builtins.NameError NotADirectoryError=builtins.NotADirectoryError NotImplementedError=builtins.NotImplementedError OSError=builtins.OSError OverflowError=builtins.OverflowError PermissionError=builtins.PermissionError ProcessLookupError=builtins.ProcessLookupError RecursionError=builtins.RecursionError ReferenceError=builtins.ReferenceError RuntimeError=builtins.RuntimeError SyntaxError=builtins.SyntaxError SystemError=builtins.SystemError TimeoutError=builtins.TimeoutError TypeError=builtins.TypeError UnicodeError=builtins.UnicodeError ValueError=builtins.ValueError ZeroDivisionError=builtins.ZeroDivisionError ChordError=celery.exceptions.ChordError ImproperlyConfigured=celery.exceptions.ImproperlyConfigured InvalidTaskError=celery.exceptions.InvalidTaskError MaxRetriesExceededError=celery.exceptions.MaxRetriesExceededError NotRegistered=celery.exceptions.NotRegistered QueueNotFound=celery.exceptions.QueueNotFound SecurityError=celery.exceptions.SecurityError TaskError=celery.exceptions.TaskError TaskRevokedError=celery.exceptions.TaskRevokedError SoftTimeLimitExceeded=billiard.exceptions.SoftTimeLimitExceeded TimeLimitExceeded=billiard.exceptions.TimeLimitExceeded WorkerLostError=billiard.exceptions.WorkerLostError ERR_TIMEOUT=billiard.exceptions.TimeLimitExceeded ERR_RESURRECTIONS_SPENT=billiard.exceptions.WorkerLostError ERR_TASK_UNKNOWN=celery.exceptions.NotRegistered ERR_UNDECODABLE=kombu.exceptions.DecodeError ERR_CHORD_UNCOUNTED=builtins.NotImplementedError ', ' ' .. kind .. '=([%w.]+)%.(%w+) ')
  return name or kind, module or 'outlast'
end
local function tell_celery_error(id, record, status, err)
  if celery_keep_ms == 0 then return end
  local is_read, read_error = pcall(cjson.decode, err)
  if not is_read then read_error = { type = 'Error', message = 'see the dead letter', traceback = '' } end
  local traceback = read_error.traceback ~= '' and cjson.encode(read_error.traceback) or 'null'
  local kind, module = python_exception(read_error.type)
  tell_celery(id, record, status, exception_text(kind, read_error.message, module), traceback)
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
if how == 'copy' and #created > 0 then created, counted, tallied, kept = {}, {}, {}, {} end
flush()
return 1`,
  },
  ledgerCheckpoint: {
    sha: '4e67ece3ea73d13ecd13395da41cda69b355c8e7',
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
local tallied, kept, objectives = {}, {}, {}
local KEPT = { done = true, dead = true, expired = true, slow = true }
local function objective_of(name)
  if objectives[name] == nil then objectives[name] = redis.call('HGET', root .. 'objectives', name) end
  return objectives[name]
end
local function add_to(counts, key, figure, by)
  local own = counts[key] or {}
  counts[key] = own
  own[figure] = (own[figure] or 0) + by
end
local function tally(name, queue, figure, by, is_message)
  tallied[name] = tallied[name] or {}
  add_to(tallied[name], queue, figure, by)
  if KEPT[figure] and not is_message and objective_of(name) then add_to(kept, name, figure, by) end
end
local function sent_ms(id, created)
  local high, low = string.match(id, '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-7%x%x%x%-')
  return math.min(created, high and tonumber(high .. low, 16) or created)
end
local function is_slow(name, id, created, eta)
  local objective = objective_of(name)
  local within = objective and tonumber(string.match(objective, '^%S+ (%S+)'))
  return within and now_ms - math.max(sent_ms(id, created), eta or 0) > within
end
local MOST_SERIES, OTHER_NAME = 20000, '(other)'
local function write_tallies()
  local key = root .. 'tally'
  for name, queues in pairs(tallied) do
    for queue, figures in pairs(queues) do
      for figure, by in pairs(figures) do
        local field = cmsgpack.pack({ name, queue, figure })
        if redis.call('HLEN', key) >= MOST_SERIES and redis.call('HEXISTS', key, field) == 0 then
          field = cmsgpack.pack({ OTHER_NAME, OTHER_NAME, figure })
        end
        redis.call('HINCRBY', key, field, by)
      end
    end
  end
  local minute = string.format('%.0f', now_ms - now_ms % 60000)
  for name, figures in pairs(kept) do
    for figure, by in pairs(figures) do redis.call('HINCRBY', root .. 'slo:' .. name, figure .. ':' .. minute, by) end
  end
end
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
local SLICE = 2000
local function in_slices(list, call)
  for first = 1, #list, SLICE do call(first, math.min(first + SLICE - 1, #list)) end
end
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
  if record[KEEP] < 0 or #(record[BODY] or '') < 0 then return end
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
local function path_in(options)
  local from = string.find(options, '"path":"', 1, true)
  local path = from and string.match(options, '^"path":"%d+%.%d+"', from)
  return path and '{' .. path .. '}' or ''
end
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS] = '', path_in(record[OPTIONS])
  record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = 0, 0
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
  if ending == 'purged' then return end
  tally(record[NAME], record[QUEUE], ending, 1)
  if ending == 'done' and is_slow(record[NAME], id, record[CREATED], record[ETA]) then tally(record[NAME], record[QUEUE], 'slow', 1) end
end
local function die(id, record, why, err)
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
  tally(record[NAME], record[QUEUE], 'dead', 1, record[EPOCH] == 0)
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
  in_slices(pairs_of_keys, function(first, last) redis.call('MSET', unpack(pairs_of_keys, first, last)) end)
  for owner, ids in pairs(ended) do
    in_slices(ids, function(first, last) redis.call('HDEL', root .. 'r:' .. owner, unpack(ids, first, last)) end)
  end
  for queue, by in pairs(moved) do
    if redis.call('HINCRBY', root .. 'running', queue, by) < 0 then redis.call('HSET', root .. 'running', queue, 0) end
  end
  for name, by in pairs(counted) do redis.call('HINCRBY', root .. 'ended', name, by) end
  write_tallies()
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
    sha: '182eb904162702c2bad603b12cdaf02542f0780a',
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
local tallied, kept, objectives = {}, {}, {}
local KEPT = { done = true, dead = true, expired = true, slow = true }
local function objective_of(name)
  if objectives[name] == nil then objectives[name] = redis.call('HGET', root .. 'objectives', name) end
  return objectives[name]
end
local function add_to(counts, key, figure, by)
  local own = counts[key] or {}
  counts[key] = own
  own[figure] = (own[figure] or 0) + by
end
local function tally(name, queue, figure, by, is_message)
  tallied[name] = tallied[name] or {}
  add_to(tallied[name], queue, figure, by)
  if KEPT[figure] and not is_message and objective_of(name) then add_to(kept, name, figure, by) end
end
local function sent_ms(id, created)
  local high, low = string.match(id, '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-7%x%x%x%-')
  return math.min(created, high and tonumber(high .. low, 16) or created)
end
local function is_slow(name, id, created, eta)
  local objective = objective_of(name)
  local within = objective and tonumber(string.match(objective, '^%S+ (%S+)'))
  return within and now_ms - math.max(sent_ms(id, created), eta or 0) > within
end
local MOST_SERIES, OTHER_NAME = 20000, '(other)'
local function write_tallies()
  local key = root .. 'tally'
  for name, queues in pairs(tallied) do
    for queue, figures in pairs(queues) do
      for figure, by in pairs(figures) do
        local field = cmsgpack.pack({ name, queue, figure })
        if redis.call('HLEN', key) >= MOST_SERIES and redis.call('HEXISTS', key, field) == 0 then
          field = cmsgpack.pack({ OTHER_NAME, OTHER_NAME, figure })
        end
        redis.call('HINCRBY', key, field, by)
      end
    end
  end
  local minute = string.format('%.0f', now_ms - now_ms % 60000)
  for name, figures in pairs(kept) do
    for figure, by in pairs(figures) do redis.call('HINCRBY', root .. 'slo:' .. name, figure .. ':' .. minute, by) end
  end
end
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
local SLICE = 2000
local function in_slices(list, call)
  for first = 1, #list, SLICE do call(first, math.min(first + SLICE - 1, #list)) end
end
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
  if record[KEEP] < 0 or #(record[BODY] or '') < 0 then return end
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
local function path_in(options)
  local from = string.find(options, '"path":"', 1, true)
  local path = from and string.match(options, '^"path":"%d+%.%d+"', from)
  return path and '{' .. path .. '}' or ''
end
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS] = '', path_in(record[OPTIONS])
  record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = 0, 0
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
  if ending == 'purged' then return end
  tally(record[NAME], record[QUEUE], ending, 1)
  if ending == 'done' and is_slow(record[NAME], id, record[CREATED], record[ETA]) then tally(record[NAME], record[QUEUE], 'slow', 1) end
end
local function die(id, record, why, err)
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
  tally(record[NAME], record[QUEUE], 'dead', 1, record[EPOCH] == 0)
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
  in_slices(pairs_of_keys, function(first, last) redis.call('MSET', unpack(pairs_of_keys, first, last)) end)
  for owner, ids in pairs(ended) do
    in_slices(ids, function(first, last) redis.call('HDEL', root .. 'r:' .. owner, unpack(ids, first, last)) end)
  end
  for queue, by in pairs(moved) do
    if redis.call('HINCRBY', root .. 'running', queue, by) < 0 then redis.call('HSET', root .. 'running', queue, 0) end
  end
  for name, by in pairs(counted) do redis.call('HINCRBY', root .. 'ended', name, by) end
  write_tallies()
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
local function write_celery(id, status, result, traceback, more, children)
  local key = 'celery-task-meta-' .. id
  local date = UNDER_WAY[status] and 'null' or iso_json()
  local shown = string.find(id, '^[%w-]+$') and id or string.sub(cjson.encode(id), 2, -2)
  local text = '{"status": "' .. status .. '", "result": ' .. result .. ', "traceback": ' .. traceback
    .. ', "children": ' .. (children or '[]') .. ', "date_done": ' .. date .. ', "task_id": "' .. shown .. '"' .. (more or '') .. '}'
  plan('SET', key, text, 'PXAT', digits(now_ms + celery_keep_ms))
  plan('PUBLISH', key, text)
end
local function tell_celery(id, record, status, result, traceback, children)
  if celery_keep_ms == 0 or string.find(record[OPTIONS], '"keepResult":false', 1, true) then return end
  write_celery(id, status, result, traceback, nil, children)
end
local function exception_text(kind, message, module)
  return '{"exc_type": ' .. cjson.encode(kind) .. ', "exc_message": [' .. cjson.encode(message) .. '], "exc_module": "' .. module .. '"}'
end
local function python_exception(kind)
  if not string.find(kind, '^[%w_]+$') then return kind, 'outlast' end
  local module, name = string.match(' ArithmeticError=builtins.ArithmeticError AssertionError=builtins.AssertionError AttributeError=builtins.AttributeError BlockingIOError=builtins.BlockingIOError BrokenPipeError=builtins.BrokenPipeError BufferError=builtins.BufferError ChildProcessError=builtins.ChildProcessError ConnectionAbortedError=builtins.ConnectionAbortedError ConnectionError=builtins.ConnectionError ConnectionRefusedError=builtins.ConnectionRefusedError ConnectionResetError=builtins.ConnectionResetError EOFError=builtins.EOFError Exception=builtins.Exception FileExistsError=builtins.FileExistsError FileNotFoundError=builtins.FileNotFoundError FloatingPointError=builtins.FloatingPointError IOError=builtins.IOError ImportError=builtins.ImportError IndexError=builtins.IndexError InterruptedError=builtins.InterruptedError IsADirectoryError=builtins.IsADirectoryError KeyError=builtins.KeyError LookupError=builtins.LookupError MemoryError=builtins.MemoryError ModuleNotFoundError=builtins.ModuleNotFoundError NameError=builtins.NameError NotADirectoryError=builtins.NotADirectoryError NotImplementedError=builtins.NotImplementedError OSError=builtins.OSError OverflowError=builtins.OverflowError PermissionError=builtins.PermissionError ProcessLookupError=builtins.ProcessLookupError RecursionError=builtins.RecursionError ReferenceError=builtins.ReferenceError RuntimeError=builtins.RuntimeError SyntaxError=builtins.SyntaxError SystemError=builtins.SystemError TimeoutError=builtins.TimeoutError TypeError=builtins.TypeError UnicodeError=builtins.UnicodeError ValueError=builtins.ValueError ZeroDivisionError=builtins.ZeroDivisionError ChordError=celery.exceptions.ChordError ImproperlyConfigured=celery.exceptions.ImproperlyConfigured InvalidTaskError=celery.exceptions.InvalidTaskError MaxRetriesExceededError=celery.exceptions.MaxRetriesExceededError NotRegistered=celery.exceptions.NotRegistered QueueNotFound=celery.exceptions.QueueNotFound SecurityError=celery.exceptions.SecurityError TaskError=celery.exceptions.TaskError TaskRevokedError=celery.exceptions.TaskRevokedError SoftTimeLimitExceeded=billiard.exceptions.SoftTimeLimitExceeded TimeLimitExceeded=billiard.exceptions.TimeLimitExceeded WorkerLostError=billiard.exceptions.WorkerLostError ERR_TIMEOUT=billiard.exceptions.TimeLimitExceeded ERR_RESURRECTIONS_SPENT=billiard.exceptions.WorkerLostError ERR_TASK_UNKNOWN=celery.exceptions.NotRegistered ERR_UNDECODABLE=kombu.exceptions.DecodeError ERR_CHORD_UNCOUNTED=builtins.NotImplementedError ', ' ' .. kind .. '=([%w.]+)%.(%w+) ')
  return name or kind, module or 'outlast'
end
local function tell_celery_error(id, record, status, err)
  if celery_keep_ms == 0 then return end
  local is_read, read_error = pcall(cjson.decode, err)
  if not is_read then read_error = { type = 'Error', message = 'see the dead letter', traceback = '' } end
  local traceback = read_error.traceback ~= '' and cjson.encode(read_error.traceback) or 'null'
  local kind, module = python_exception(read_error.type)
  tell_celery(id, record, status, exception_text(kind, read_error.message, module), traceback)
end
local function tell_celery_revoked(id, record, why)
  tell_celery(id, record, 'REVOKED', exception_text('TaskRevokedError', why, 'celery.exceptions'), 'null')
end
local function around(worker, epoch, run, begun_ms, keep_ms)
  local history = 'b' .. digits(begun_ms) .. ' ' .. digits(epoch) .. ' ' .. worker .. '\\n'
    .. 'd' .. now_text .. ' ' .. digits(epoch) .. ' \\n'
  local keep = now_ms + math.max(1, keep_ms)
  return RECORD_HEAD .. pack_places('d', epoch, '', '', 'c ' .. run),
    pack_places(0, 0, begun_ms, history, 0, 0, 0, 'done', now_ms, '', ''), cmsgpack.pack(keep), digits(keep)
end
local statuses, is_ended = {}, {}
for _, batch in ipairs(cmsgpack.unpack(ARGV[1])) do
  local worker, epoch, run, begun_ms, keep_ms, kinds, ids, kind_of, parts_of, results, after, untold, children = unpack(batch)
  local noted = digits(epoch) .. ' ' .. run
  local found = {}
  in_slices(ids, function(first, last)
    for place, value in ipairs(redis.call('HMGET', root .. 'r:' .. worker, unpack(ids, first, last))) do
      found[first + place - 1] = value
    end
  end)
  local head, middle, tail, keep = around(worker, epoch, run, begun_ms, keep_ms)
  local heads, tails, names, done_of, slow_of = {}, {}, {}, {}, {}
  for number, kind in ipairs(kinds) do
    heads[number], tails[number] = head .. kind[2], kind[3] .. middle
    names[number] = cmsgpack.unpack('\\148' .. kind[2])[1]
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
      done_of[kind] = (done_of[kind] or 0) + 1
      if objective_of(names[kind]) and is_slow(names[kind], id, begun_ms, cmsgpack.unpack('\\147' .. parts_of[place])[2]) then
        slow_of[kind] = (slow_of[kind] or 0) + 1
      end
      local kept_result = cmsgpack.pack(celery_keep_ms == 0 and result)
      plan('SET', root .. 't:' .. id, heads[kind] .. parts_of[place] .. tails[kind] .. kept_result .. tail, 'PXAT', keep)
      if celery_keep_ms > 0 and not untold[place] then write_celery(id, 'SUCCESS', result or 'null', 'null', nil, children[place]) end
      if after[place] then write_all_after(after[place]) end
    end
  end
  if #done > 0 then ended[worker] = done end
  for kind, by in pairs(done_of) do tally(names[kind], kinds[kind][1], 'done', by) end
  for kind, by in pairs(slow_of) do tally(names[kind], kinds[kind][1], 'slow', by) end
end
for _ in pairs(is_ended) do count('done', 1) end
flush()
return statuses`,
  },
  ledgerCommit: {
    sha: '9e51ee19d1bd2fab8af8d4f52ac0627264a57269',
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
local tallied, kept, objectives = {}, {}, {}
local KEPT = { done = true, dead = true, expired = true, slow = true }
local function objective_of(name)
  if objectives[name] == nil then objectives[name] = redis.call('HGET', root .. 'objectives', name) end
  return objectives[name]
end
local function add_to(counts, key, figure, by)
  local own = counts[key] or {}
  counts[key] = own
  own[figure] = (own[figure] or 0) + by
end
local function tally(name, queue, figure, by, is_message)
  tallied[name] = tallied[name] or {}
  add_to(tallied[name], queue, figure, by)
  if KEPT[figure] and not is_message and objective_of(name) then add_to(kept, name, figure, by) end
end
local function sent_ms(id, created)
  local high, low = string.match(id, '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-7%x%x%x%-')
  return math.min(created, high and tonumber(high .. low, 16) or created)
end
local function is_slow(name, id, created, eta)
  local objective = objective_of(name)
  local within = objective and tonumber(string.match(objective, '^%S+ (%S+)'))
  return within and now_ms - math.max(sent_ms(id, created), eta or 0) > within
end
local MOST_SERIES, OTHER_NAME = 20000, '(other)'
local function write_tallies()
  local key = root .. 'tally'
  for name, queues in pairs(tallied) do
    for queue, figures in pairs(queues) do
      for figure, by in pairs(figures) do
        local field = cmsgpack.pack({ name, queue, figure })
        if redis.call('HLEN', key) >= MOST_SERIES and redis.call('HEXISTS', key, field) == 0 then
          field = cmsgpack.pack({ OTHER_NAME, OTHER_NAME, figure })
        end
        redis.call('HINCRBY', key, field, by)
      end
    end
  end
  local minute = string.format('%.0f', now_ms - now_ms % 60000)
  for name, figures in pairs(kept) do
    for figure, by in pairs(figures) do redis.call('HINCRBY', root .. 'slo:' .. name, figure .. ':' .. minute, by) end
  end
end
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
local SLICE = 2000
local function in_slices(list, call)
  for first = 1, #list, SLICE do call(first, math.min(first + SLICE - 1, #list)) end
end
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
  if record[KEEP] < 0 or #(record[BODY] or '') < 0 then return end
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
local function path_in(options)
  local from = string.find(options, '"path":"', 1, true)
  local path = from and string.match(options, '^"path":"%d+%.%d+"', from)
  return path and '{' .. path .. '}' or ''
end
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS] = '', path_in(record[OPTIONS])
  record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = 0, 0
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
  if ending == 'purged' then return end
  tally(record[NAME], record[QUEUE], ending, 1)
  if ending == 'done' and is_slow(record[NAME], id, record[CREATED], record[ETA]) then tally(record[NAME], record[QUEUE], 'slow', 1) end
end
local function die(id, record, why, err)
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
  tally(record[NAME], record[QUEUE], 'dead', 1, record[EPOCH] == 0)
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
  in_slices(pairs_of_keys, function(first, last) redis.call('MSET', unpack(pairs_of_keys, first, last)) end)
  for owner, ids in pairs(ended) do
    in_slices(ids, function(first, last) redis.call('HDEL', root .. 'r:' .. owner, unpack(ids, first, last)) end)
  end
  for queue, by in pairs(moved) do
    if redis.call('HINCRBY', root .. 'running', queue, by) < 0 then redis.call('HSET', root .. 'running', queue, 0) end
  end
  for name, by in pairs(counted) do redis.call('HINCRBY', root .. 'ended', name, by) end
  write_tallies()
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
local function write_celery(id, status, result, traceback, more, children)
  local key = 'celery-task-meta-' .. id
  local date = UNDER_WAY[status] and 'null' or iso_json()
  local shown = string.find(id, '^[%w-]+$') and id or string.sub(cjson.encode(id), 2, -2)
  local text = '{"status": "' .. status .. '", "result": ' .. result .. ', "traceback": ' .. traceback
    .. ', "children": ' .. (children or '[]') .. ', "date_done": ' .. date .. ', "task_id": "' .. shown .. '"' .. (more or '') .. '}'
  plan('SET', key, text, 'PXAT', digits(now_ms + celery_keep_ms))
  plan('PUBLISH', key, text)
end
local function tell_celery(id, record, status, result, traceback, children)
  if celery_keep_ms == 0 or string.find(record[OPTIONS], '"keepResult":false', 1, true) then return end
  write_celery(id, status, result, traceback, nil, children)
end
local function exception_text(kind, message, module)
  return '{"exc_type": ' .. cjson.encode(kind) .. ', "exc_message": [' .. cjson.encode(message) .. '], "exc_module": "' .. module .. '"}'
end
local function python_exception(kind)
  if not string.find(kind, '^[%w_]+$') then return kind, 'outlast' end
  local module, name = string.match(' ArithmeticError=builtins.ArithmeticError AssertionError=builtins.AssertionError AttributeError=builtins.AttributeError BlockingIOError=builtins.BlockingIOError BrokenPipeError=builtins.BrokenPipeError BufferError=builtins.BufferError ChildProcessError=builtins.ChildProcessError ConnectionAbortedError=builtins.ConnectionAbortedError ConnectionError=builtins.ConnectionError ConnectionRefusedError=builtins.ConnectionRefusedError ConnectionResetError=builtins.ConnectionResetError EOFError=builtins.EOFError Exception=builtins.Exception FileExistsError=builtins.FileExistsError FileNotFoundError=builtins.FileNotFoundError FloatingPointError=builtins.FloatingPointError IOError=builtins.IOError ImportError=builtins.ImportError IndexError=builtins.IndexError InterruptedError=builtins.InterruptedError IsADirectoryError=builtins.IsADirectoryError KeyError=builtins.KeyError LookupError=builtins.LookupError MemoryError=builtins.MemoryError ModuleNotFoundError=builtins.ModuleNotFoundError NameError=builtins.NameError NotADirectoryError=builtins.NotADirectoryError NotImplementedError=builtins.NotImplementedError OSError=builtins.OSError OverflowError=builtins.OverflowError PermissionError=builtins.PermissionError ProcessLookupError=builtins.ProcessLookupError RecursionError=builtins.RecursionError ReferenceError=builtins.ReferenceError RuntimeError=builtins.RuntimeError SyntaxError=builtins.SyntaxError SystemError=builtins.SystemError TimeoutError=builtins.TimeoutError TypeError=builtins.TypeError UnicodeError=builtins.UnicodeError ValueError=builtins.ValueError ZeroDivisionError=builtins.ZeroDivisionError ChordError=celery.exceptions.ChordError ImproperlyConfigured=celery.exceptions.ImproperlyConfigured InvalidTaskError=celery.exceptions.InvalidTaskError MaxRetriesExceededError=celery.exceptions.MaxRetriesExceededError NotRegistered=celery.exceptions.NotRegistered QueueNotFound=celery.exceptions.QueueNotFound SecurityError=celery.exceptions.SecurityError TaskError=celery.exceptions.TaskError TaskRevokedError=celery.exceptions.TaskRevokedError SoftTimeLimitExceeded=billiard.exceptions.SoftTimeLimitExceeded TimeLimitExceeded=billiard.exceptions.TimeLimitExceeded WorkerLostError=billiard.exceptions.WorkerLostError ERR_TIMEOUT=billiard.exceptions.TimeLimitExceeded ERR_RESURRECTIONS_SPENT=billiard.exceptions.WorkerLostError ERR_TASK_UNKNOWN=celery.exceptions.NotRegistered ERR_UNDECODABLE=kombu.exceptions.DecodeError ERR_CHORD_UNCOUNTED=builtins.NotImplementedError ', ' ' .. kind .. '=([%w.]+)%.(%w+) ')
  return name or kind, module or 'outlast'
end
local function tell_celery_error(id, record, status, err)
  if celery_keep_ms == 0 then return end
  local is_read, read_error = pcall(cjson.decode, err)
  if not is_read then read_error = { type = 'Error', message = 'see the dead letter', traceback = '' } end
  local traceback = read_error.traceback ~= '' and cjson.encode(read_error.traceback) or 'null'
  local kind, module = python_exception(read_error.type)
  tell_celery(id, record, status, exception_text(kind, read_error.message, module), traceback)
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
    local mark = step .. ' ' .. run
    if not record then
      statuses[place] = 3
    elseif record[STATE] == 'r' and record[EPOCH] == epoch and record[RUN] == run then
      record[SETTLED] = mark
      let_go(id, record)
      apply(id, record, item)
      write(id, record)
      statuses[place] = 1
    else
      statuses[place] = record[SETTLED] == mark and 1 or 2
      if statuses[place] == 2 and step == 'c' then tally(record[NAME], record[QUEUE], 'stale', 1) end
    end
  end
  flush()
  return statuses
end
return settle(cmsgpack.unpack(ARGV[1]), 'c', function(id, record, item)
  local ending, why, result, keep_ms, after = item[4], item[5], item[6], item[7], item[8]
  if ending == 'done' then
    tell_celery(id, record, 'SUCCESS', result or 'null', 'null', item[9])
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
    sha: 'e0650b56d3957bd704f9eff0329225946fed3e95',
    text: `#!lua flags=allow-oom
local root, lease_lost, host_lost = KEYS[1], ARGV[1], ARGV[2]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local function close(workers, death_of, is_unknown_too)
  local closed, deaths = {}, {}
  for _, worker in ipairs(workers) do
    local is_open = redis.call('ZREM', root .. 'leases', worker) == 1
    if is_open then
      closed[#closed + 1], deaths[#deaths + 1] = worker, death_of(worker)
      redis.call('HSET', root .. 'deaths', worker, deaths[#deaths])
    end
    if is_open or is_unknown_too then redis.call('ZADD', root .. 'closed', 'NX', now_ms, worker) end
  end
  return { now_ms, closed, deaths }
end
local MOST = 500
local leases, overdue = root .. 'leases', '(' .. string.format('%.0f', now_ms)
local function host_of(worker)
  local row = redis.call('HGET', root .. 'workers', worker)
  return row and cmsgpack.unpack(row)[2]
end
local expired = redis.call('ZRANGEBYSCORE', leases, '-inf', overdue, 'LIMIT', 0, MOST)
local living = {}
if #expired > 0 then
  for _, worker in ipairs(redis.call('ZRANGEBYSCORE', leases, string.format('%.0f', now_ms), '+inf')) do
    living[host_of(worker) or ''] = true
  end
end
return close(expired, function(worker)
  return living[host_of(worker) or ''] and lease_lost or host_lost
end)`,
  },
  ledgerCondemnProcess: {
    sha: 'fbbb3738b6cd286d5d3ace7bb88e8e53149455d7',
    text: `#!lua flags=allow-oom
local root, process, death = KEYS[1], ARGV[1], ARGV[2]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local function close(workers, death_of, is_unknown_too)
  local closed, deaths = {}, {}
  for _, worker in ipairs(workers) do
    local is_open = redis.call('ZREM', root .. 'leases', worker) == 1
    if is_open then
      closed[#closed + 1], deaths[#deaths + 1] = worker, death_of(worker)
      redis.call('HSET', root .. 'deaths', worker, deaths[#deaths])
    end
    if is_open or is_unknown_too then redis.call('ZADD', root .. 'closed', 'NX', now_ms, worker) end
  end
  return { now_ms, closed, deaths }
end
local theirs = {}
for _, worker in ipairs(redis.call('ZRANGE', root .. 'leases', 0, -1)) do
  local row = redis.call('HGET', root .. 'workers', worker)
  if row and cmsgpack.unpack(row)[1] == process then theirs[#theirs + 1] = worker end
end
return close(theirs, function() return death end)`,
  },
  ledgerCondemnWorkers: {
    sha: '9c64c8f3d17a05b647be8fb3942c39ff7c3c8b26',
    text: `#!lua flags=allow-oom
local root, death = KEYS[1], ARGV[3]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local function close(workers, death_of, is_unknown_too)
  local closed, deaths = {}, {}
  for _, worker in ipairs(workers) do
    local is_open = redis.call('ZREM', root .. 'leases', worker) == 1
    if is_open then
      closed[#closed + 1], deaths[#deaths + 1] = worker, death_of(worker)
      redis.call('HSET', root .. 'deaths', worker, deaths[#deaths])
    end
    if is_open or is_unknown_too then redis.call('ZADD', root .. 'closed', 'NX', now_ms, worker) end
  end
  return { now_ms, closed, deaths }
end
return close(cmsgpack.unpack(ARGV[2]), function() return death end, ARGV[1] == '1')`,
  },
  ledgerEvacuateEnd: {
    sha: '7d8262c6062e8d4a50a95a37308dc54c4c556495',
    text: `#!lua flags=allow-oom
local root, id, epoch = KEYS[1], ARGV[1], tonumber(ARGV[2])
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local STATE, EPOCH, RUN, OWNER, SETTLED = 1, 2, 3, 4, 5
local NAME, QUEUE, PRIORITY, VERSION, DIGEST = 6, 7, 8, 9, 10
local ETA, EXPIRES, OPTIONS, BODY = 11, 12, 13, 14
local FAILURES, CRASHES, BUDGET, DUE, SEQ = 15, 16, 17, 18, 19
local CREATED, HISTORY, CHECKPOINT_EPOCH, CHECKPOINT_SEQ = 20, 21, 22, 23
local DEATHS, ENDING, ENDED, WHY, ERROR, RESULT, KEEP = 24, 25, 26, 27, 28, 29, 30
local tallied, kept, objectives = {}, {}, {}
local KEPT = { done = true, dead = true, expired = true, slow = true }
local function objective_of(name)
  if objectives[name] == nil then objectives[name] = redis.call('HGET', root .. 'objectives', name) end
  return objectives[name]
end
local function add_to(counts, key, figure, by)
  local own = counts[key] or {}
  counts[key] = own
  own[figure] = (own[figure] or 0) + by
end
local function tally(name, queue, figure, by, is_message)
  tallied[name] = tallied[name] or {}
  add_to(tallied[name], queue, figure, by)
  if KEPT[figure] and not is_message and objective_of(name) then add_to(kept, name, figure, by) end
end
local function sent_ms(id, created)
  local high, low = string.match(id, '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-7%x%x%x%-')
  return math.min(created, high and tonumber(high .. low, 16) or created)
end
local function is_slow(name, id, created, eta)
  local objective = objective_of(name)
  local within = objective and tonumber(string.match(objective, '^%S+ (%S+)'))
  return within and now_ms - math.max(sent_ms(id, created), eta or 0) > within
end
local MOST_SERIES, OTHER_NAME = 20000, '(other)'
local function write_tallies()
  local key = root .. 'tally'
  for name, queues in pairs(tallied) do
    for queue, figures in pairs(queues) do
      for figure, by in pairs(figures) do
        local field = cmsgpack.pack({ name, queue, figure })
        if redis.call('HLEN', key) >= MOST_SERIES and redis.call('HEXISTS', key, field) == 0 then
          field = cmsgpack.pack({ OTHER_NAME, OTHER_NAME, figure })
        end
        redis.call('HINCRBY', key, field, by)
      end
    end
  end
  local minute = string.format('%.0f', now_ms - now_ms % 60000)
  for name, figures in pairs(kept) do
    for figure, by in pairs(figures) do redis.call('HINCRBY', root .. 'slo:' .. name, figure .. ':' .. minute, by) end
  end
end
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
local SLICE = 2000
local function in_slices(list, call)
  for first = 1, #list, SLICE do call(first, math.min(first + SLICE - 1, #list)) end
end
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
  if record[KEEP] < 0 or #(record[BODY] or '') < 0 then return end
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
local function path_in(options)
  local from = string.find(options, '"path":"', 1, true)
  local path = from and string.match(options, '^"path":"%d+%.%d+"', from)
  return path and '{' .. path .. '}' or ''
end
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS] = '', path_in(record[OPTIONS])
  record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = 0, 0
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
  if ending == 'purged' then return end
  tally(record[NAME], record[QUEUE], ending, 1)
  if ending == 'done' and is_slow(record[NAME], id, record[CREATED], record[ETA]) then tally(record[NAME], record[QUEUE], 'slow', 1) end
end
local function die(id, record, why, err)
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
  tally(record[NAME], record[QUEUE], 'dead', 1, record[EPOCH] == 0)
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
  in_slices(pairs_of_keys, function(first, last) redis.call('MSET', unpack(pairs_of_keys, first, last)) end)
  for owner, ids in pairs(ended) do
    in_slices(ids, function(first, last) redis.call('HDEL', root .. 'r:' .. owner, unpack(ids, first, last)) end)
  end
  for queue, by in pairs(moved) do
    if redis.call('HINCRBY', root .. 'running', queue, by) < 0 then redis.call('HSET', root .. 'running', queue, 0) end
  end
  for name, by in pairs(counted) do redis.call('HINCRBY', root .. 'ended', name, by) end
  write_tallies()
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
local function aside_set(queue, name)
  return root .. 'aside:' .. queue .. '\\n' .. name
end
local function set_aside(id, record, by)
  note(record, 'n')
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
local function wait(id, record, delay_ms)
  record[STATE], record[RUN], record[OWNER] = 'w', '', ''
  if delay_ms then record[DUE] = now_ms + delay_ms end
  enter(id, record)
end
read({ id })
local record = records[id]
if not record then return 3 end
if record[EPOCH] ~= epoch or (record[STATE] ~= 'w' and record[STATE] ~= 'x') then return 2 end
blame(record, -faults(record))
if record[STATE] == 'w' then leave(id, record) else plan('ZREM', root .. 'dead', id) end
plan('UNLINK', root .. 't:' .. id, root .. 'b:' .. id, root .. 'c:' .. id)
flush()
return 1`,
  },
  ledgerEvacuateList: {
    sha: '1e38c82acdf5a65dd6cecabc7c904f41fe75a635',
    text: `#!lua flags=no-writes
local root, limit, most_bytes = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local STATE, EPOCH, RUN, OWNER, SETTLED = 1, 2, 3, 4, 5
local NAME, QUEUE, PRIORITY, VERSION, DIGEST = 6, 7, 8, 9, 10
local ETA, EXPIRES, OPTIONS, BODY = 11, 12, 13, 14
local FAILURES, CRASHES, BUDGET, DUE, SEQ = 15, 16, 17, 18, 19
local CREATED, HISTORY, CHECKPOINT_EPOCH, CHECKPOINT_SEQ = 20, 21, 22, 23
local DEATHS, ENDING, ENDED, WHY, ERROR, RESULT, KEEP = 24, 25, 26, 27, 28, 29, 30
local tallied, kept, objectives = {}, {}, {}
local KEPT = { done = true, dead = true, expired = true, slow = true }
local function objective_of(name)
  if objectives[name] == nil then objectives[name] = redis.call('HGET', root .. 'objectives', name) end
  return objectives[name]
end
local function add_to(counts, key, figure, by)
  local own = counts[key] or {}
  counts[key] = own
  own[figure] = (own[figure] or 0) + by
end
local function tally(name, queue, figure, by, is_message)
  tallied[name] = tallied[name] or {}
  add_to(tallied[name], queue, figure, by)
  if KEPT[figure] and not is_message and objective_of(name) then add_to(kept, name, figure, by) end
end
local function sent_ms(id, created)
  local high, low = string.match(id, '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-7%x%x%x%-')
  return math.min(created, high and tonumber(high .. low, 16) or created)
end
local function is_slow(name, id, created, eta)
  local objective = objective_of(name)
  local within = objective and tonumber(string.match(objective, '^%S+ (%S+)'))
  return within and now_ms - math.max(sent_ms(id, created), eta or 0) > within
end
local MOST_SERIES, OTHER_NAME = 20000, '(other)'
local function write_tallies()
  local key = root .. 'tally'
  for name, queues in pairs(tallied) do
    for queue, figures in pairs(queues) do
      for figure, by in pairs(figures) do
        local field = cmsgpack.pack({ name, queue, figure })
        if redis.call('HLEN', key) >= MOST_SERIES and redis.call('HEXISTS', key, field) == 0 then
          field = cmsgpack.pack({ OTHER_NAME, OTHER_NAME, figure })
        end
        redis.call('HINCRBY', key, field, by)
      end
    end
  end
  local minute = string.format('%.0f', now_ms - now_ms % 60000)
  for name, figures in pairs(kept) do
    for figure, by in pairs(figures) do redis.call('HINCRBY', root .. 'slo:' .. name, figure .. ':' .. minute, by) end
  end
end
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
local SLICE = 2000
local function in_slices(list, call)
  for first = 1, #list, SLICE do call(first, math.min(first + SLICE - 1, #list)) end
end
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
  if record[KEEP] < 0 or #(record[BODY] or '') < 0 then return end
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
local function path_in(options)
  local from = string.find(options, '"path":"', 1, true)
  local path = from and string.match(options, '^"path":"%d+%.%d+"', from)
  return path and '{' .. path .. '}' or ''
end
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS] = '', path_in(record[OPTIONS])
  record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = 0, 0
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
  if ending == 'purged' then return end
  tally(record[NAME], record[QUEUE], ending, 1)
  if ending == 'done' and is_slow(record[NAME], id, record[CREATED], record[ETA]) then tally(record[NAME], record[QUEUE], 'slow', 1) end
end
local function die(id, record, why, err)
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
  tally(record[NAME], record[QUEUE], 'dead', 1, record[EPOCH] == 0)
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
  in_slices(pairs_of_keys, function(first, last) redis.call('MSET', unpack(pairs_of_keys, first, last)) end)
  for owner, ids in pairs(ended) do
    in_slices(ids, function(first, last) redis.call('HDEL', root .. 'r:' .. owner, unpack(ids, first, last)) end)
  end
  for queue, by in pairs(moved) do
    if redis.call('HINCRBY', root .. 'running', queue, by) < 0 then redis.call('HSET', root .. 'running', queue, 0) end
  end
  for name, by in pairs(counted) do redis.call('HINCRBY', root .. 'ended', name, by) end
  write_tallies()
  if #created > 0 then note_created() end
  if is_ready then redis.call('PUBLISH', root .. 'ready', '') end
end
local ids = {}
local function add(set, from)
  for _, member in ipairs(redis.call('ZRANGE', root .. set, 0, limit - #ids - 1)) do ids[#ids + 1] = string.sub(member, from) end
end
for _, queue in ipairs(redis.call('HKEYS', root .. 'running')) do
  for _, set in ipairs({ 'ready:', 'later:', 'ready-suspects:', 'later-suspects:' }) do
    if #ids < limit then add(set .. queue, 12) end
  end
end
if #ids < limit then add('aside', 1) end
if #ids < limit then add('dead', 1) end
local found, bytes = {}, 0
for _, id in ipairs(ids) do
  local raw = redis.call('GET', root .. 't:' .. id)
  bytes = bytes + #(raw or '') + redis.call('STRLEN', root .. 'b:' .. id)
  if #found > 0 and bytes > most_bytes then break end
  if raw then
    local due_in = math.max(0, cmsgpack.unpack(raw)[DUE] - now_ms)
    found[#found + 1] = { id, raw, redis.call('GET', root .. 'b:' .. id), due_in }
  end
end
return found`,
  },
  ledgerFail: {
    sha: '4bcbeef07b363aaab6c7ff4b644a2159b57bb9ff',
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
local tallied, kept, objectives = {}, {}, {}
local KEPT = { done = true, dead = true, expired = true, slow = true }
local function objective_of(name)
  if objectives[name] == nil then objectives[name] = redis.call('HGET', root .. 'objectives', name) end
  return objectives[name]
end
local function add_to(counts, key, figure, by)
  local own = counts[key] or {}
  counts[key] = own
  own[figure] = (own[figure] or 0) + by
end
local function tally(name, queue, figure, by, is_message)
  tallied[name] = tallied[name] or {}
  add_to(tallied[name], queue, figure, by)
  if KEPT[figure] and not is_message and objective_of(name) then add_to(kept, name, figure, by) end
end
local function sent_ms(id, created)
  local high, low = string.match(id, '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-7%x%x%x%-')
  return math.min(created, high and tonumber(high .. low, 16) or created)
end
local function is_slow(name, id, created, eta)
  local objective = objective_of(name)
  local within = objective and tonumber(string.match(objective, '^%S+ (%S+)'))
  return within and now_ms - math.max(sent_ms(id, created), eta or 0) > within
end
local MOST_SERIES, OTHER_NAME = 20000, '(other)'
local function write_tallies()
  local key = root .. 'tally'
  for name, queues in pairs(tallied) do
    for queue, figures in pairs(queues) do
      for figure, by in pairs(figures) do
        local field = cmsgpack.pack({ name, queue, figure })
        if redis.call('HLEN', key) >= MOST_SERIES and redis.call('HEXISTS', key, field) == 0 then
          field = cmsgpack.pack({ OTHER_NAME, OTHER_NAME, figure })
        end
        redis.call('HINCRBY', key, field, by)
      end
    end
  end
  local minute = string.format('%.0f', now_ms - now_ms % 60000)
  for name, figures in pairs(kept) do
    for figure, by in pairs(figures) do redis.call('HINCRBY', root .. 'slo:' .. name, figure .. ':' .. minute, by) end
  end
end
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
local SLICE = 2000
local function in_slices(list, call)
  for first = 1, #list, SLICE do call(first, math.min(first + SLICE - 1, #list)) end
end
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
  if record[KEEP] < 0 or #(record[BODY] or '') < 0 then return end
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
local function path_in(options)
  local from = string.find(options, '"path":"', 1, true)
  local path = from and string.match(options, '^"path":"%d+%.%d+"', from)
  return path and '{' .. path .. '}' or ''
end
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS] = '', path_in(record[OPTIONS])
  record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = 0, 0
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
  if ending == 'purged' then return end
  tally(record[NAME], record[QUEUE], ending, 1)
  if ending == 'done' and is_slow(record[NAME], id, record[CREATED], record[ETA]) then tally(record[NAME], record[QUEUE], 'slow', 1) end
end
local function die(id, record, why, err)
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
  tally(record[NAME], record[QUEUE], 'dead', 1, record[EPOCH] == 0)
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
  in_slices(pairs_of_keys, function(first, last) redis.call('MSET', unpack(pairs_of_keys, first, last)) end)
  for owner, ids in pairs(ended) do
    in_slices(ids, function(first, last) redis.call('HDEL', root .. 'r:' .. owner, unpack(ids, first, last)) end)
  end
  for queue, by in pairs(moved) do
    if redis.call('HINCRBY', root .. 'running', queue, by) < 0 then redis.call('HSET', root .. 'running', queue, 0) end
  end
  for name, by in pairs(counted) do redis.call('HINCRBY', root .. 'ended', name, by) end
  write_tallies()
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
local function write_celery(id, status, result, traceback, more, children)
  local key = 'celery-task-meta-' .. id
  local date = UNDER_WAY[status] and 'null' or iso_json()
  local shown = string.find(id, '^[%w-]+$') and id or string.sub(cjson.encode(id), 2, -2)
  local text = '{"status": "' .. status .. '", "result": ' .. result .. ', "traceback": ' .. traceback
    .. ', "children": ' .. (children or '[]') .. ', "date_done": ' .. date .. ', "task_id": "' .. shown .. '"' .. (more or '') .. '}'
  plan('SET', key, text, 'PXAT', digits(now_ms + celery_keep_ms))
  plan('PUBLISH', key, text)
end
local function tell_celery(id, record, status, result, traceback, children)
  if celery_keep_ms == 0 or string.find(record[OPTIONS], '"keepResult":false', 1, true) then return end
  write_celery(id, status, result, traceback, nil, children)
end
local function exception_text(kind, message, module)
  return '{"exc_type": ' .. cjson.encode(kind) .. ', "exc_message": [' .. cjson.encode(message) .. '], "exc_module": "' .. module .. '"}'
end
local function python_exception(kind)
  if not string.find(kind, '^[%w_]+$') then return kind, 'outlast' end
  local module, name = string.match(' ArithmeticError=builtins.ArithmeticError AssertionError=builtins.AssertionError AttributeError=builtins.AttributeError BlockingIOError=builtins.BlockingIOError BrokenPipeError=builtins.BrokenPipeError BufferError=builtins.BufferError ChildProcessError=builtins.ChildProcessError ConnectionAbortedError=builtins.ConnectionAbortedError ConnectionError=builtins.ConnectionError ConnectionRefusedError=builtins.ConnectionRefusedError ConnectionResetError=builtins.ConnectionResetError EOFError=builtins.EOFError Exception=builtins.Exception FileExistsError=builtins.FileExistsError FileNotFoundError=builtins.FileNotFoundError FloatingPointError=builtins.FloatingPointError IOError=builtins.IOError ImportError=builtins.ImportError IndexError=builtins.IndexError InterruptedError=builtins.InterruptedError IsADirectoryError=builtins.IsADirectoryError KeyError=builtins.KeyError LookupError=builtins.LookupError MemoryError=builtins.MemoryError ModuleNotFoundError=builtins.ModuleNotFoundError NameError=builtins.NameError NotADirectoryError=builtins.NotADirectoryError NotImplementedError=builtins.NotImplementedError OSError=builtins.OSError OverflowError=builtins.OverflowError PermissionError=builtins.PermissionError ProcessLookupError=builtins.ProcessLookupError RecursionError=builtins.RecursionError ReferenceError=builtins.ReferenceError RuntimeError=builtins.RuntimeError SyntaxError=builtins.SyntaxError SystemError=builtins.SystemError TimeoutError=builtins.TimeoutError TypeError=builtins.TypeError UnicodeError=builtins.UnicodeError ValueError=builtins.ValueError ZeroDivisionError=builtins.ZeroDivisionError ChordError=celery.exceptions.ChordError ImproperlyConfigured=celery.exceptions.ImproperlyConfigured InvalidTaskError=celery.exceptions.InvalidTaskError MaxRetriesExceededError=celery.exceptions.MaxRetriesExceededError NotRegistered=celery.exceptions.NotRegistered QueueNotFound=celery.exceptions.QueueNotFound SecurityError=celery.exceptions.SecurityError TaskError=celery.exceptions.TaskError TaskRevokedError=celery.exceptions.TaskRevokedError SoftTimeLimitExceeded=billiard.exceptions.SoftTimeLimitExceeded TimeLimitExceeded=billiard.exceptions.TimeLimitExceeded WorkerLostError=billiard.exceptions.WorkerLostError ERR_TIMEOUT=billiard.exceptions.TimeLimitExceeded ERR_RESURRECTIONS_SPENT=billiard.exceptions.WorkerLostError ERR_TASK_UNKNOWN=celery.exceptions.NotRegistered ERR_UNDECODABLE=kombu.exceptions.DecodeError ERR_CHORD_UNCOUNTED=builtins.NotImplementedError ', ' ' .. kind .. '=([%w.]+)%.(%w+) ')
  return name or kind, module or 'outlast'
end
local function tell_celery_error(id, record, status, err)
  if celery_keep_ms == 0 then return end
  local is_read, read_error = pcall(cjson.decode, err)
  if not is_read then read_error = { type = 'Error', message = 'see the dead letter', traceback = '' } end
  local traceback = read_error.traceback ~= '' and cjson.encode(read_error.traceback) or 'null'
  local kind, module = python_exception(read_error.type)
  tell_celery(id, record, status, exception_text(kind, read_error.message, module), traceback)
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
local function aside_set(queue, name)
  return root .. 'aside:' .. queue .. '\\n' .. name
end
local function set_aside(id, record, by)
  note(record, 'n')
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
    local mark = step .. ' ' .. run
    if not record then
      statuses[place] = 3
    elseif record[STATE] == 'r' and record[EPOCH] == epoch and record[RUN] == run then
      record[SETTLED] = mark
      let_go(id, record)
      apply(id, record, item)
      write(id, record)
      statuses[place] = 1
    else
      statuses[place] = record[SETTLED] == mark and 1 or 2
      if statuses[place] == 2 and step == 'c' then tally(record[NAME], record[QUEUE], 'stale', 1) end
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
  if not is_crash then tally(record[NAME], record[QUEUE], 'failed', 1) end
  if delay_ms then tally(record[NAME], record[QUEUE], is_crash and 'resurrected' or 'retried', 1) end
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
    sha: '4bf29ec7673a2b9c9e2a8c9f5b0f8e01be05da0c',
    text: `#!lua flags=allow-oom
local root = KEYS[1]
local new_mark, shown, generation = ARGV[1], ARGV[2], tonumber(ARGV[3])
local meta = root .. 'meta'
local function replication_id()
  local info = redis.pcall('INFO', 'replication')
  return type(info) == 'string' and string.match(info, 'master_replid:(%x+)') or 'unknown'
end
local history = replication_id()
redis.call('HSETNX', meta, 'mark', new_mark)
local now_shown = history .. '/' .. redis.call('HGET', meta, 'mark')
local stored = tonumber(redis.call('HGET', meta, 'generation') or '')
if generation and shown == now_shown then
  stored = math.max(stored or 0, generation)
  redis.call('HSET', meta, 'generation', string.format('%.0f', stored), 'replication_id', history)
end
local is_settled = stored and redis.call('HGET', meta, 'replication_id') == history
local stored_text = stored and string.format('%.0f', stored) or ''
return { now_shown, stored_text, is_settled and 1 or 0, tonumber(redis.call('TIME')[1]) }`,
  },
  ledgerInfo: {
    sha: '9213d4821a00169d0712e331a7239b5761e13a87',
    text: `#!lua flags=no-writes
local _ = KEYS[1]
return redis.call('INFO', 'server') .. redis.call('INFO', 'memory') .. redis.call('INFO', 'persistence')`,
  },
  ledgerIsolate: {
    sha: '9c2dd96544267a1fb9e43ac6d0dd91f35cfb0d25',
    text: `#!lua flags=allow-oom
local root, named, queues, most = KEYS[1], cmsgpack.unpack(ARGV[1]), cmsgpack.unpack(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local STATE, EPOCH, RUN, OWNER, SETTLED = 1, 2, 3, 4, 5
local NAME, QUEUE, PRIORITY, VERSION, DIGEST = 6, 7, 8, 9, 10
local ETA, EXPIRES, OPTIONS, BODY = 11, 12, 13, 14
local FAILURES, CRASHES, BUDGET, DUE, SEQ = 15, 16, 17, 18, 19
local CREATED, HISTORY, CHECKPOINT_EPOCH, CHECKPOINT_SEQ = 20, 21, 22, 23
local DEATHS, ENDING, ENDED, WHY, ERROR, RESULT, KEEP = 24, 25, 26, 27, 28, 29, 30
local tallied, kept, objectives = {}, {}, {}
local KEPT = { done = true, dead = true, expired = true, slow = true }
local function objective_of(name)
  if objectives[name] == nil then objectives[name] = redis.call('HGET', root .. 'objectives', name) end
  return objectives[name]
end
local function add_to(counts, key, figure, by)
  local own = counts[key] or {}
  counts[key] = own
  own[figure] = (own[figure] or 0) + by
end
local function tally(name, queue, figure, by, is_message)
  tallied[name] = tallied[name] or {}
  add_to(tallied[name], queue, figure, by)
  if KEPT[figure] and not is_message and objective_of(name) then add_to(kept, name, figure, by) end
end
local function sent_ms(id, created)
  local high, low = string.match(id, '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-7%x%x%x%-')
  return math.min(created, high and tonumber(high .. low, 16) or created)
end
local function is_slow(name, id, created, eta)
  local objective = objective_of(name)
  local within = objective and tonumber(string.match(objective, '^%S+ (%S+)'))
  return within and now_ms - math.max(sent_ms(id, created), eta or 0) > within
end
local MOST_SERIES, OTHER_NAME = 20000, '(other)'
local function write_tallies()
  local key = root .. 'tally'
  for name, queues in pairs(tallied) do
    for queue, figures in pairs(queues) do
      for figure, by in pairs(figures) do
        local field = cmsgpack.pack({ name, queue, figure })
        if redis.call('HLEN', key) >= MOST_SERIES and redis.call('HEXISTS', key, field) == 0 then
          field = cmsgpack.pack({ OTHER_NAME, OTHER_NAME, figure })
        end
        redis.call('HINCRBY', key, field, by)
      end
    end
  end
  local minute = string.format('%.0f', now_ms - now_ms % 60000)
  for name, figures in pairs(kept) do
    for figure, by in pairs(figures) do redis.call('HINCRBY', root .. 'slo:' .. name, figure .. ':' .. minute, by) end
  end
end
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
local SLICE = 2000
local function in_slices(list, call)
  for first = 1, #list, SLICE do call(first, math.min(first + SLICE - 1, #list)) end
end
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
  if record[KEEP] < 0 or #(record[BODY] or '') < 0 then return end
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
local function path_in(options)
  local from = string.find(options, '"path":"', 1, true)
  local path = from and string.match(options, '^"path":"%d+%.%d+"', from)
  return path and '{' .. path .. '}' or ''
end
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS] = '', path_in(record[OPTIONS])
  record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = 0, 0
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
  if ending == 'purged' then return end
  tally(record[NAME], record[QUEUE], ending, 1)
  if ending == 'done' and is_slow(record[NAME], id, record[CREATED], record[ETA]) then tally(record[NAME], record[QUEUE], 'slow', 1) end
end
local function die(id, record, why, err)
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
  tally(record[NAME], record[QUEUE], 'dead', 1, record[EPOCH] == 0)
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
  in_slices(pairs_of_keys, function(first, last) redis.call('MSET', unpack(pairs_of_keys, first, last)) end)
  for owner, ids in pairs(ended) do
    in_slices(ids, function(first, last) redis.call('HDEL', root .. 'r:' .. owner, unpack(ids, first, last)) end)
  end
  for queue, by in pairs(moved) do
    if redis.call('HINCRBY', root .. 'running', queue, by) < 0 then redis.call('HSET', root .. 'running', queue, 0) end
  end
  for name, by in pairs(counted) do redis.call('HINCRBY', root .. 'ended', name, by) end
  write_tallies()
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
local function aside_set(queue, name)
  return root .. 'aside:' .. queue .. '\\n' .. name
end
local function set_aside(id, record, by)
  note(record, 'n')
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
local function wait(id, record, delay_ms)
  record[STATE], record[RUN], record[OWNER] = 'w', '', ''
  if delay_ms then record[DUE] = now_ms + delay_ms end
  enter(id, record)
end
local MOST_WORKERS, LARGEST = 1000, 8.64e15
local NO_DIGEST, REASON, UNKNOWN = 'unreadable', 'ERR_UNDECODABLE', 'unknown'
local SHAPE = 'tntttttnntNNtTnnnnnntnnntnttRn'
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
  record[STATE], record[ENDING], record[ENDED], record[KEEP] = 'x', 'dead', now_ms, 0
  record[RUN], record[OWNER], record[RESULT] = '', '', false
  record[DEATHS], record[WHY] = record[DEATHS] + 1, REASON
  record[ERROR] = '{"type":"' .. REASON .. '","message":"' .. why .. '","traceback":""}'
  note(record, 'u')
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
  if record[STATE] == 'x' or record[STATE] == 'd' or record[STATE] == 'c' then return end
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
return isolated`,
  },
  ledgerJoinCeleryChord: {
    sha: 'fd299e9990d0db58bed6c4a31fb9f851495de852',
    text: `#!lua flags=allow-oom
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
redis.call('PEXPIRE', parts, keep_ms)
redis.call('PEXPIRE', total, keep_ms)
redis.call('PEXPIRE', correction, keep_ms)
redis.call('PEXPIRE', shape, keep_ms)
local wanted = tonumber(redis.call('GET', total) or '')
if not wanted then return { 1 } end
local tasks = tasks_in(redis.call('GET', shape))
if tasks > wanted then
  wanted = tasks
  redis.call('SET', total, wanted, 'PX', keep_ms)
end
wanted = wanted + tonumber(redis.call('GET', correction) or '0')
if redis.call('ZCARD', parts) < wanted then return { 1 } end
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
    signed = 0
  end
end
if #members < wanted then return { 1 } end
redis.call('DEL', parts, correction, total)
redis.call('HSET', chord, '=', cmsgpack.pack(members))
if signed == 1 then redis.call('HSET', chord, '!', '1') end
redis.call('PEXPIRE', chord, KEEP_COMPLETE_MS)
return answer(members, signed)`,
  },
  ledgerJoinChord: {
    sha: '3d0852591c405f42da8c3cc18d439535010d7039',
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
local places, results, signed = {}, {}, 1
local fields = redis.call('HGETALL', chord)
for place = 1, #fields, 2 do
  local part = fields[place + 1]
  if fields[place] ~= 'size' and part ~= '-' then
    places[#places + 1] = { tonumber(fields[place]), string.sub(part, 2) }
    if string.sub(part, 1, 1) ~= '+' then signed = 0 end
  end
end
if #places < size then return { 1 } end
table.sort(places, function(one, other) return one[1] < other[1] end)
for place, part in ipairs(places) do results[place] = part[2] end
redis.call('PEXPIRE', chord, KEEP_COMPLETE_MS, 'LT')
return { 3, results, signed }`,
  },
  ledgerLate: {
    sha: '743efa350e8bdefa2a8b241c0e9e0c24cdc52598',
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
local tallied, kept, objectives = {}, {}, {}
local KEPT = { done = true, dead = true, expired = true, slow = true }
local function objective_of(name)
  if objectives[name] == nil then objectives[name] = redis.call('HGET', root .. 'objectives', name) end
  return objectives[name]
end
local function add_to(counts, key, figure, by)
  local own = counts[key] or {}
  counts[key] = own
  own[figure] = (own[figure] or 0) + by
end
local function tally(name, queue, figure, by, is_message)
  tallied[name] = tallied[name] or {}
  add_to(tallied[name], queue, figure, by)
  if KEPT[figure] and not is_message and objective_of(name) then add_to(kept, name, figure, by) end
end
local function sent_ms(id, created)
  local high, low = string.match(id, '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-7%x%x%x%-')
  return math.min(created, high and tonumber(high .. low, 16) or created)
end
local function is_slow(name, id, created, eta)
  local objective = objective_of(name)
  local within = objective and tonumber(string.match(objective, '^%S+ (%S+)'))
  return within and now_ms - math.max(sent_ms(id, created), eta or 0) > within
end
local MOST_SERIES, OTHER_NAME = 20000, '(other)'
local function write_tallies()
  local key = root .. 'tally'
  for name, queues in pairs(tallied) do
    for queue, figures in pairs(queues) do
      for figure, by in pairs(figures) do
        local field = cmsgpack.pack({ name, queue, figure })
        if redis.call('HLEN', key) >= MOST_SERIES and redis.call('HEXISTS', key, field) == 0 then
          field = cmsgpack.pack({ OTHER_NAME, OTHER_NAME, figure })
        end
        redis.call('HINCRBY', key, field, by)
      end
    end
  end
  local minute = string.format('%.0f', now_ms - now_ms % 60000)
  for name, figures in pairs(kept) do
    for figure, by in pairs(figures) do redis.call('HINCRBY', root .. 'slo:' .. name, figure .. ':' .. minute, by) end
  end
end
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
local SLICE = 2000
local function in_slices(list, call)
  for first = 1, #list, SLICE do call(first, math.min(first + SLICE - 1, #list)) end
end
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
  if record[KEEP] < 0 or #(record[BODY] or '') < 0 then return end
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
local function path_in(options)
  local from = string.find(options, '"path":"', 1, true)
  local path = from and string.match(options, '^"path":"%d+%.%d+"', from)
  return path and '{' .. path .. '}' or ''
end
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS] = '', path_in(record[OPTIONS])
  record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = 0, 0
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
  if ending == 'purged' then return end
  tally(record[NAME], record[QUEUE], ending, 1)
  if ending == 'done' and is_slow(record[NAME], id, record[CREATED], record[ETA]) then tally(record[NAME], record[QUEUE], 'slow', 1) end
end
local function die(id, record, why, err)
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
  tally(record[NAME], record[QUEUE], 'dead', 1, record[EPOCH] == 0)
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
  in_slices(pairs_of_keys, function(first, last) redis.call('MSET', unpack(pairs_of_keys, first, last)) end)
  for owner, ids in pairs(ended) do
    in_slices(ids, function(first, last) redis.call('HDEL', root .. 'r:' .. owner, unpack(ids, first, last)) end)
  end
  for queue, by in pairs(moved) do
    if redis.call('HINCRBY', root .. 'running', queue, by) < 0 then redis.call('HSET', root .. 'running', queue, 0) end
  end
  for name, by in pairs(counted) do redis.call('HINCRBY', root .. 'ended', name, by) end
  write_tallies()
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
local function aside_set(queue, name)
  return root .. 'aside:' .. queue .. '\\n' .. name
end
local function set_aside(id, record, by)
  note(record, 'n')
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
  ledgerObjectives: {
    sha: '0bc3708a6a642ee4d465604087fce44370a6354e',
    text: `#!lua flags=no-writes
local root = KEYS[1]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local found, all = {}, redis.call('HGETALL', root .. 'objectives')
for place = 1, #all, 2 do
  found[#found + 1] = { all[place], all[place + 1], redis.call('HGETALL', root .. 'slo:' .. all[place]) }
end
return { now_ms, found }`,
  },
  ledgerOpen: {
    sha: '47b88fd962f6b7cfd99d7518dd68bc2364cf7d57',
    text: `#!lua flags=allow-oom
local root = KEYS[1]
local worker, process, host, pid, lease_ms = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local leases = root .. 'leases'
if redis.call('ZSCORE', leases, worker) or redis.call('ZSCORE', root .. 'closed', worker) then return 1 end
local objectives = cmsgpack.unpack(ARGV[6])
local without, said = objectives[1], objectives[2]
for _, name in ipairs(without) do
  if redis.call('HDEL', root .. 'objectives', name) == 1 then redis.call('UNLINK', root .. 'slo:' .. name) end
end
for place = 1, #said, 2 do redis.call('HSET', root .. 'objectives', said[place], said[place + 1]) end
redis.call('HSET', root .. 'workers', worker, cmsgpack.pack({ process, host, pid, lease_ms, now_ms }))
redis.call('ZADD', leases, now_ms + lease_ms, worker)
return 1`,
  },
  ledgerParkFull: {
    sha: '16e066ea30247a479c172945cb90e7bbf28a2e9c',
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
local tallied, kept, objectives = {}, {}, {}
local KEPT = { done = true, dead = true, expired = true, slow = true }
local function objective_of(name)
  if objectives[name] == nil then objectives[name] = redis.call('HGET', root .. 'objectives', name) end
  return objectives[name]
end
local function add_to(counts, key, figure, by)
  local own = counts[key] or {}
  counts[key] = own
  own[figure] = (own[figure] or 0) + by
end
local function tally(name, queue, figure, by, is_message)
  tallied[name] = tallied[name] or {}
  add_to(tallied[name], queue, figure, by)
  if KEPT[figure] and not is_message and objective_of(name) then add_to(kept, name, figure, by) end
end
local function sent_ms(id, created)
  local high, low = string.match(id, '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-7%x%x%x%-')
  return math.min(created, high and tonumber(high .. low, 16) or created)
end
local function is_slow(name, id, created, eta)
  local objective = objective_of(name)
  local within = objective and tonumber(string.match(objective, '^%S+ (%S+)'))
  return within and now_ms - math.max(sent_ms(id, created), eta or 0) > within
end
local MOST_SERIES, OTHER_NAME = 20000, '(other)'
local function write_tallies()
  local key = root .. 'tally'
  for name, queues in pairs(tallied) do
    for queue, figures in pairs(queues) do
      for figure, by in pairs(figures) do
        local field = cmsgpack.pack({ name, queue, figure })
        if redis.call('HLEN', key) >= MOST_SERIES and redis.call('HEXISTS', key, field) == 0 then
          field = cmsgpack.pack({ OTHER_NAME, OTHER_NAME, figure })
        end
        redis.call('HINCRBY', key, field, by)
      end
    end
  end
  local minute = string.format('%.0f', now_ms - now_ms % 60000)
  for name, figures in pairs(kept) do
    for figure, by in pairs(figures) do redis.call('HINCRBY', root .. 'slo:' .. name, figure .. ':' .. minute, by) end
  end
end
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
local SLICE = 2000
local function in_slices(list, call)
  for first = 1, #list, SLICE do call(first, math.min(first + SLICE - 1, #list)) end
end
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
  if record[KEEP] < 0 or #(record[BODY] or '') < 0 then return end
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
local function path_in(options)
  local from = string.find(options, '"path":"', 1, true)
  local path = from and string.match(options, '^"path":"%d+%.%d+"', from)
  return path and '{' .. path .. '}' or ''
end
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS] = '', path_in(record[OPTIONS])
  record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = 0, 0
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
  if ending == 'purged' then return end
  tally(record[NAME], record[QUEUE], ending, 1)
  if ending == 'done' and is_slow(record[NAME], id, record[CREATED], record[ETA]) then tally(record[NAME], record[QUEUE], 'slow', 1) end
end
local function die(id, record, why, err)
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
  tally(record[NAME], record[QUEUE], 'dead', 1, record[EPOCH] == 0)
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
  in_slices(pairs_of_keys, function(first, last) redis.call('MSET', unpack(pairs_of_keys, first, last)) end)
  for owner, ids in pairs(ended) do
    in_slices(ids, function(first, last) redis.call('HDEL', root .. 'r:' .. owner, unpack(ids, first, last)) end)
  end
  for queue, by in pairs(moved) do
    if redis.call('HINCRBY', root .. 'running', queue, by) < 0 then redis.call('HSET', root .. 'running', queue, 0) end
  end
  for name, by in pairs(counted) do redis.call('HINCRBY', root .. 'ended', name, by) end
  write_tallies()
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
local function aside_set(queue, name)
  return root .. 'aside:' .. queue .. '\\n' .. name
end
local function set_aside(id, record, by)
  note(record, 'n')
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
local function park(items)
  local ids = {}
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
      local wait_ms = delay_ms or math.max(0, (message[7] or now_ms) - now_ms)
      if item[4] then
        record[DUE] = now_ms + wait_ms
        set_aside(id, record, item[4])
      else
        note(record, 'a')
        wait(id, record, wait_ms)
      end
      write(id, record)
    elseif found[DIGEST] == '' then
      come_cancelled(id, found, message)
    elseif found[DIGEST] ~= message[6] then
      message[1] = other_id
      bury_message(message, 'ERR_DIGEST', ERROR_OF_OTHER, #items * 2)
    elseif found[STATE] == 'w' and found[EPOCH] == 0 and is_aside(id) then
      found[OPTIONS] = message[9]
      set_aside(id, found, item[4] or redis.call('HGET', root .. 'aside-by', id) or '')
      write(id, found)
    end
  end
  flush()
end
park(cmsgpack.unpack(ARGV[1]))
return 1`,
  },
  ledgerPark: {
    sha: 'ddecd57dd2b9711227f9d0955d205bbb40233698',
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
local tallied, kept, objectives = {}, {}, {}
local KEPT = { done = true, dead = true, expired = true, slow = true }
local function objective_of(name)
  if objectives[name] == nil then objectives[name] = redis.call('HGET', root .. 'objectives', name) end
  return objectives[name]
end
local function add_to(counts, key, figure, by)
  local own = counts[key] or {}
  counts[key] = own
  own[figure] = (own[figure] or 0) + by
end
local function tally(name, queue, figure, by, is_message)
  tallied[name] = tallied[name] or {}
  add_to(tallied[name], queue, figure, by)
  if KEPT[figure] and not is_message and objective_of(name) then add_to(kept, name, figure, by) end
end
local function sent_ms(id, created)
  local high, low = string.match(id, '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-7%x%x%x%-')
  return math.min(created, high and tonumber(high .. low, 16) or created)
end
local function is_slow(name, id, created, eta)
  local objective = objective_of(name)
  local within = objective and tonumber(string.match(objective, '^%S+ (%S+)'))
  return within and now_ms - math.max(sent_ms(id, created), eta or 0) > within
end
local MOST_SERIES, OTHER_NAME = 20000, '(other)'
local function write_tallies()
  local key = root .. 'tally'
  for name, queues in pairs(tallied) do
    for queue, figures in pairs(queues) do
      for figure, by in pairs(figures) do
        local field = cmsgpack.pack({ name, queue, figure })
        if redis.call('HLEN', key) >= MOST_SERIES and redis.call('HEXISTS', key, field) == 0 then
          field = cmsgpack.pack({ OTHER_NAME, OTHER_NAME, figure })
        end
        redis.call('HINCRBY', key, field, by)
      end
    end
  end
  local minute = string.format('%.0f', now_ms - now_ms % 60000)
  for name, figures in pairs(kept) do
    for figure, by in pairs(figures) do redis.call('HINCRBY', root .. 'slo:' .. name, figure .. ':' .. minute, by) end
  end
end
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
local SLICE = 2000
local function in_slices(list, call)
  for first = 1, #list, SLICE do call(first, math.min(first + SLICE - 1, #list)) end
end
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
  if record[KEEP] < 0 or #(record[BODY] or '') < 0 then return end
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
local function path_in(options)
  local from = string.find(options, '"path":"', 1, true)
  local path = from and string.match(options, '^"path":"%d+%.%d+"', from)
  return path and '{' .. path .. '}' or ''
end
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS] = '', path_in(record[OPTIONS])
  record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = 0, 0
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
  if ending == 'purged' then return end
  tally(record[NAME], record[QUEUE], ending, 1)
  if ending == 'done' and is_slow(record[NAME], id, record[CREATED], record[ETA]) then tally(record[NAME], record[QUEUE], 'slow', 1) end
end
local function die(id, record, why, err)
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
  tally(record[NAME], record[QUEUE], 'dead', 1, record[EPOCH] == 0)
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
  in_slices(pairs_of_keys, function(first, last) redis.call('MSET', unpack(pairs_of_keys, first, last)) end)
  for owner, ids in pairs(ended) do
    in_slices(ids, function(first, last) redis.call('HDEL', root .. 'r:' .. owner, unpack(ids, first, last)) end)
  end
  for queue, by in pairs(moved) do
    if redis.call('HINCRBY', root .. 'running', queue, by) < 0 then redis.call('HSET', root .. 'running', queue, 0) end
  end
  for name, by in pairs(counted) do redis.call('HINCRBY', root .. 'ended', name, by) end
  write_tallies()
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
local function aside_set(queue, name)
  return root .. 'aside:' .. queue .. '\\n' .. name
end
local function set_aside(id, record, by)
  note(record, 'n')
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
local function park(items)
  local ids = {}
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
      local wait_ms = delay_ms or math.max(0, (message[7] or now_ms) - now_ms)
      if item[4] then
        record[DUE] = now_ms + wait_ms
        set_aside(id, record, item[4])
      else
        note(record, 'a')
        wait(id, record, wait_ms)
      end
      write(id, record)
    elseif found[DIGEST] == '' then
      come_cancelled(id, found, message)
    elseif found[DIGEST] ~= message[6] then
      message[1] = other_id
      bury_message(message, 'ERR_DIGEST', ERROR_OF_OTHER, #items * 2)
    elseif found[STATE] == 'w' and found[EPOCH] == 0 and is_aside(id) then
      found[OPTIONS] = message[9]
      set_aside(id, found, item[4] or redis.call('HGET', root .. 'aside-by', id) or '')
      write(id, found)
    end
  end
  flush()
end
park(cmsgpack.unpack(ARGV[1]))
return 1`,
  },
  ledgerPurge: {
    sha: 'e3c14e8a38ed1984f9d04d428fa06d52daf3518a',
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
local tallied, kept, objectives = {}, {}, {}
local KEPT = { done = true, dead = true, expired = true, slow = true }
local function objective_of(name)
  if objectives[name] == nil then objectives[name] = redis.call('HGET', root .. 'objectives', name) end
  return objectives[name]
end
local function add_to(counts, key, figure, by)
  local own = counts[key] or {}
  counts[key] = own
  own[figure] = (own[figure] or 0) + by
end
local function tally(name, queue, figure, by, is_message)
  tallied[name] = tallied[name] or {}
  add_to(tallied[name], queue, figure, by)
  if KEPT[figure] and not is_message and objective_of(name) then add_to(kept, name, figure, by) end
end
local function sent_ms(id, created)
  local high, low = string.match(id, '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-7%x%x%x%-')
  return math.min(created, high and tonumber(high .. low, 16) or created)
end
local function is_slow(name, id, created, eta)
  local objective = objective_of(name)
  local within = objective and tonumber(string.match(objective, '^%S+ (%S+)'))
  return within and now_ms - math.max(sent_ms(id, created), eta or 0) > within
end
local MOST_SERIES, OTHER_NAME = 20000, '(other)'
local function write_tallies()
  local key = root .. 'tally'
  for name, queues in pairs(tallied) do
    for queue, figures in pairs(queues) do
      for figure, by in pairs(figures) do
        local field = cmsgpack.pack({ name, queue, figure })
        if redis.call('HLEN', key) >= MOST_SERIES and redis.call('HEXISTS', key, field) == 0 then
          field = cmsgpack.pack({ OTHER_NAME, OTHER_NAME, figure })
        end
        redis.call('HINCRBY', key, field, by)
      end
    end
  end
  local minute = string.format('%.0f', now_ms - now_ms % 60000)
  for name, figures in pairs(kept) do
    for figure, by in pairs(figures) do redis.call('HINCRBY', root .. 'slo:' .. name, figure .. ':' .. minute, by) end
  end
end
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
local SLICE = 2000
local function in_slices(list, call)
  for first = 1, #list, SLICE do call(first, math.min(first + SLICE - 1, #list)) end
end
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
  if record[KEEP] < 0 or #(record[BODY] or '') < 0 then return end
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
local function path_in(options)
  local from = string.find(options, '"path":"', 1, true)
  local path = from and string.match(options, '^"path":"%d+%.%d+"', from)
  return path and '{' .. path .. '}' or ''
end
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS] = '', path_in(record[OPTIONS])
  record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = 0, 0
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
  if ending == 'purged' then return end
  tally(record[NAME], record[QUEUE], ending, 1)
  if ending == 'done' and is_slow(record[NAME], id, record[CREATED], record[ETA]) then tally(record[NAME], record[QUEUE], 'slow', 1) end
end
local function die(id, record, why, err)
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
  tally(record[NAME], record[QUEUE], 'dead', 1, record[EPOCH] == 0)
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
  in_slices(pairs_of_keys, function(first, last) redis.call('MSET', unpack(pairs_of_keys, first, last)) end)
  for owner, ids in pairs(ended) do
    in_slices(ids, function(first, last) redis.call('HDEL', root .. 'r:' .. owner, unpack(ids, first, last)) end)
  end
  for queue, by in pairs(moved) do
    if redis.call('HINCRBY', root .. 'running', queue, by) < 0 then redis.call('HSET', root .. 'running', queue, 0) end
  end
  for name, by in pairs(counted) do redis.call('HINCRBY', root .. 'ended', name, by) end
  write_tallies()
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
  ledgerRaiseEpoch: {
    sha: '3e6418cc0ccc1e4a25e11972f1e58f0c3de3a661',
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
local tallied, kept, objectives = {}, {}, {}
local KEPT = { done = true, dead = true, expired = true, slow = true }
local function objective_of(name)
  if objectives[name] == nil then objectives[name] = redis.call('HGET', root .. 'objectives', name) end
  return objectives[name]
end
local function add_to(counts, key, figure, by)
  local own = counts[key] or {}
  counts[key] = own
  own[figure] = (own[figure] or 0) + by
end
local function tally(name, queue, figure, by, is_message)
  tallied[name] = tallied[name] or {}
  add_to(tallied[name], queue, figure, by)
  if KEPT[figure] and not is_message and objective_of(name) then add_to(kept, name, figure, by) end
end
local function sent_ms(id, created)
  local high, low = string.match(id, '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-7%x%x%x%-')
  return math.min(created, high and tonumber(high .. low, 16) or created)
end
local function is_slow(name, id, created, eta)
  local objective = objective_of(name)
  local within = objective and tonumber(string.match(objective, '^%S+ (%S+)'))
  return within and now_ms - math.max(sent_ms(id, created), eta or 0) > within
end
local MOST_SERIES, OTHER_NAME = 20000, '(other)'
local function write_tallies()
  local key = root .. 'tally'
  for name, queues in pairs(tallied) do
    for queue, figures in pairs(queues) do
      for figure, by in pairs(figures) do
        local field = cmsgpack.pack({ name, queue, figure })
        if redis.call('HLEN', key) >= MOST_SERIES and redis.call('HEXISTS', key, field) == 0 then
          field = cmsgpack.pack({ OTHER_NAME, OTHER_NAME, figure })
        end
        redis.call('HINCRBY', key, field, by)
      end
    end
  end
  local minute = string.format('%.0f', now_ms - now_ms % 60000)
  for name, figures in pairs(kept) do
    for figure, by in pairs(figures) do redis.call('HINCRBY', root .. 'slo:' .. name, figure .. ':' .. minute, by) end
  end
end
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
local SLICE = 2000
local function in_slices(list, call)
  for first = 1, #list, SLICE do call(first, math.min(first + SLICE - 1, #list)) end
end
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
  if record[KEEP] < 0 or #(record[BODY] or '') < 0 then return end
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
local function path_in(options)
  local from = string.find(options, '"path":"', 1, true)
  local path = from and string.match(options, '^"path":"%d+%.%d+"', from)
  return path and '{' .. path .. '}' or ''
end
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS] = '', path_in(record[OPTIONS])
  record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = 0, 0
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
  if ending == 'purged' then return end
  tally(record[NAME], record[QUEUE], ending, 1)
  if ending == 'done' and is_slow(record[NAME], id, record[CREATED], record[ETA]) then tally(record[NAME], record[QUEUE], 'slow', 1) end
end
local function die(id, record, why, err)
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
  tally(record[NAME], record[QUEUE], 'dead', 1, record[EPOCH] == 0)
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
  in_slices(pairs_of_keys, function(first, last) redis.call('MSET', unpack(pairs_of_keys, first, last)) end)
  for owner, ids in pairs(ended) do
    in_slices(ids, function(first, last) redis.call('HDEL', root .. 'r:' .. owner, unpack(ids, first, last)) end)
  end
  for queue, by in pairs(moved) do
    if redis.call('HINCRBY', root .. 'running', queue, by) < 0 then redis.call('HSET', root .. 'running', queue, 0) end
  end
  for name, by in pairs(counted) do redis.call('HINCRBY', root .. 'ended', name, by) end
  write_tallies()
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
  ledgerReap: {
    sha: 'b1b528293b90ce1bdc95a994b3fa653cd434fb58',
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
local tallied, kept, objectives = {}, {}, {}
local KEPT = { done = true, dead = true, expired = true, slow = true }
local function objective_of(name)
  if objectives[name] == nil then objectives[name] = redis.call('HGET', root .. 'objectives', name) end
  return objectives[name]
end
local function add_to(counts, key, figure, by)
  local own = counts[key] or {}
  counts[key] = own
  own[figure] = (own[figure] or 0) + by
end
local function tally(name, queue, figure, by, is_message)
  tallied[name] = tallied[name] or {}
  add_to(tallied[name], queue, figure, by)
  if KEPT[figure] and not is_message and objective_of(name) then add_to(kept, name, figure, by) end
end
local function sent_ms(id, created)
  local high, low = string.match(id, '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-7%x%x%x%-')
  return math.min(created, high and tonumber(high .. low, 16) or created)
end
local function is_slow(name, id, created, eta)
  local objective = objective_of(name)
  local within = objective and tonumber(string.match(objective, '^%S+ (%S+)'))
  return within and now_ms - math.max(sent_ms(id, created), eta or 0) > within
end
local MOST_SERIES, OTHER_NAME = 20000, '(other)'
local function write_tallies()
  local key = root .. 'tally'
  for name, queues in pairs(tallied) do
    for queue, figures in pairs(queues) do
      for figure, by in pairs(figures) do
        local field = cmsgpack.pack({ name, queue, figure })
        if redis.call('HLEN', key) >= MOST_SERIES and redis.call('HEXISTS', key, field) == 0 then
          field = cmsgpack.pack({ OTHER_NAME, OTHER_NAME, figure })
        end
        redis.call('HINCRBY', key, field, by)
      end
    end
  end
  local minute = string.format('%.0f', now_ms - now_ms % 60000)
  for name, figures in pairs(kept) do
    for figure, by in pairs(figures) do redis.call('HINCRBY', root .. 'slo:' .. name, figure .. ':' .. minute, by) end
  end
end
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
local SLICE = 2000
local function in_slices(list, call)
  for first = 1, #list, SLICE do call(first, math.min(first + SLICE - 1, #list)) end
end
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
  if record[KEEP] < 0 or #(record[BODY] or '') < 0 then return end
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
local function path_in(options)
  local from = string.find(options, '"path":"', 1, true)
  local path = from and string.match(options, '^"path":"%d+%.%d+"', from)
  return path and '{' .. path .. '}' or ''
end
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS] = '', path_in(record[OPTIONS])
  record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = 0, 0
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
  if ending == 'purged' then return end
  tally(record[NAME], record[QUEUE], ending, 1)
  if ending == 'done' and is_slow(record[NAME], id, record[CREATED], record[ETA]) then tally(record[NAME], record[QUEUE], 'slow', 1) end
end
local function die(id, record, why, err)
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
  tally(record[NAME], record[QUEUE], 'dead', 1, record[EPOCH] == 0)
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
  in_slices(pairs_of_keys, function(first, last) redis.call('MSET', unpack(pairs_of_keys, first, last)) end)
  for owner, ids in pairs(ended) do
    in_slices(ids, function(first, last) redis.call('HDEL', root .. 'r:' .. owner, unpack(ids, first, last)) end)
  end
  for queue, by in pairs(moved) do
    if redis.call('HINCRBY', root .. 'running', queue, by) < 0 then redis.call('HSET', root .. 'running', queue, 0) end
  end
  for name, by in pairs(counted) do redis.call('HINCRBY', root .. 'ended', name, by) end
  write_tallies()
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
local function aside_set(queue, name)
  return root .. 'aside:' .. queue .. '\\n' .. name
end
local function set_aside(id, record, by)
  note(record, 'n')
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
local function write_celery(id, status, result, traceback, more, children)
  local key = 'celery-task-meta-' .. id
  local date = UNDER_WAY[status] and 'null' or iso_json()
  local shown = string.find(id, '^[%w-]+$') and id or string.sub(cjson.encode(id), 2, -2)
  local text = '{"status": "' .. status .. '", "result": ' .. result .. ', "traceback": ' .. traceback
    .. ', "children": ' .. (children or '[]') .. ', "date_done": ' .. date .. ', "task_id": "' .. shown .. '"' .. (more or '') .. '}'
  plan('SET', key, text, 'PXAT', digits(now_ms + celery_keep_ms))
  plan('PUBLISH', key, text)
end
local function tell_celery(id, record, status, result, traceback, children)
  if celery_keep_ms == 0 or string.find(record[OPTIONS], '"keepResult":false', 1, true) then return end
  write_celery(id, status, result, traceback, nil, children)
end
local function exception_text(kind, message, module)
  return '{"exc_type": ' .. cjson.encode(kind) .. ', "exc_message": [' .. cjson.encode(message) .. '], "exc_module": "' .. module .. '"}'
end
local function python_exception(kind)
  if not string.find(kind, '^[%w_]+$') then return kind, 'outlast' end
  local module, name = string.match(' ArithmeticError=builtins.ArithmeticError AssertionError=builtins.AssertionError AttributeError=builtins.AttributeError BlockingIOError=builtins.BlockingIOError BrokenPipeError=builtins.BrokenPipeError BufferError=builtins.BufferError ChildProcessError=builtins.ChildProcessError ConnectionAbortedError=builtins.ConnectionAbortedError ConnectionError=builtins.ConnectionError ConnectionRefusedError=builtins.ConnectionRefusedError ConnectionResetError=builtins.ConnectionResetError EOFError=builtins.EOFError Exception=builtins.Exception FileExistsError=builtins.FileExistsError FileNotFoundError=builtins.FileNotFoundError FloatingPointError=builtins.FloatingPointError IOError=builtins.IOError ImportError=builtins.ImportError IndexError=builtins.IndexError InterruptedError=builtins.InterruptedError IsADirectoryError=builtins.IsADirectoryError KeyError=builtins.KeyError LookupError=builtins.LookupError MemoryError=builtins.MemoryError ModuleNotFoundError=builtins.ModuleNotFoundError NameError=builtins.NameError NotADirectoryError=builtins.NotADirectoryError NotImplementedError=builtins.NotImplementedError OSError=builtins.OSError OverflowError=builtins.OverflowError PermissionError=builtins.PermissionError ProcessLookupError=builtins.ProcessLookupError RecursionError=builtins.RecursionError ReferenceError=builtins.ReferenceError RuntimeError=builtins.RuntimeError SyntaxError=builtins.SyntaxError SystemError=builtins.SystemError TimeoutError=builtins.TimeoutError TypeError=builtins.TypeError UnicodeError=builtins.UnicodeError ValueError=builtins.ValueError ZeroDivisionError=builtins.ZeroDivisionError ChordError=celery.exceptions.ChordError ImproperlyConfigured=celery.exceptions.ImproperlyConfigured InvalidTaskError=celery.exceptions.InvalidTaskError MaxRetriesExceededError=celery.exceptions.MaxRetriesExceededError NotRegistered=celery.exceptions.NotRegistered QueueNotFound=celery.exceptions.QueueNotFound SecurityError=celery.exceptions.SecurityError TaskError=celery.exceptions.TaskError TaskRevokedError=celery.exceptions.TaskRevokedError SoftTimeLimitExceeded=billiard.exceptions.SoftTimeLimitExceeded TimeLimitExceeded=billiard.exceptions.TimeLimitExceeded WorkerLostError=billiard.exceptions.WorkerLostError ERR_TIMEOUT=billiard.exceptions.TimeLimitExceeded ERR_RESURRECTIONS_SPENT=billiard.exceptions.WorkerLostError ERR_TASK_UNKNOWN=celery.exceptions.NotRegistered ERR_UNDECODABLE=kombu.exceptions.DecodeError ERR_CHORD_UNCOUNTED=builtins.NotImplementedError ', ' ' .. kind .. '=([%w.]+)%.(%w+) ')
  return name or kind, module or 'outlast'
end
local function tell_celery_error(id, record, status, err)
  if celery_keep_ms == 0 then return end
  local is_read, read_error = pcall(cjson.decode, err)
  if not is_read then read_error = { type = 'Error', message = 'see the dead letter', traceback = '' } end
  local traceback = read_error.traceback ~= '' and cjson.encode(read_error.traceback) or 'null'
  local kind, module = python_exception(read_error.type)
  tell_celery(id, record, status, exception_text(kind, read_error.message, module), traceback)
end
local function tell_celery_revoked(id, record, why)
  tell_celery(id, record, 'REVOKED', exception_text('TaskRevokedError', why, 'celery.exceptions'), 'null')
end
local REMEMBER_CLOSED_MS, MOST_CLOSED, MOST_FORGOTTEN = 60000, 5000, 500
local tasks, looked = {}, 0
local function bring_back(id, record, worker, death)
  record[CRASHES] = record[CRASHES] + 1
  blame(record, 1)
  local is_spent = record[CRASHES] > record[BUDGET]
  if is_spent then
    note(record, 'x', death)
    local last = death and '; the last time: ' .. cjson.decode(death).message or ''
    local why = cjson.encode('its worker died ' .. record[CRASHES] .. ' times' .. last)
    local err = '{"type":"ERR_RESURRECTIONS_SPENT","message":' .. why .. ',"traceback":""}'
    tell_celery_error(id, record, 'FAILURE', err)
    die(id, record, 'ERR_RESURRECTIONS_SPENT', err)
  else
    note(record, 'p', death)
    tally(record[NAME], record[QUEUE], 'resurrected', 1)
    wait(id, record, nil)
  end
  write(id, record)
  tasks[#tasks + 1] = { id, record[NAME], record[QUEUE], record[CRASHES], is_spent and 1 or 0, worker, death }
end
for _, worker in ipairs(redis.call('ZRANGE', root .. 'closed', 0, MOST_CLOSED - 1)) do
  if looked >= limit then break end
  local death = redis.call('HGET', root .. 'deaths', worker)
  local ids = redis.call('HRANDFIELD', root .. 'r:' .. worker, limit - looked)
  looked = looked + #ids
  read(ids)
  for _, id in ipairs(ids) do
    local record = records[id]
    if record and record[STATE] == 'r' and record[OWNER] == worker then
      let_go(id, record)
      bring_back(id, record, worker, death)
    else
      plan('HDEL', root .. 'r:' .. worker, id)
    end
  end
end
flush()
local forgotten = redis.call('ZRANGEBYSCORE', root .. 'closed', '-inf', now_ms - REMEMBER_CLOSED_MS, 'LIMIT', 0, MOST_FORGOTTEN)
for _, worker in ipairs(forgotten) do
  if redis.call('EXISTS', root .. 'r:' .. worker) == 0 then
    redis.call('ZREM', root .. 'closed', worker)
    redis.call('HDEL', root .. 'workers', worker)
    redis.call('HDEL', root .. 'deaths', worker)
  end
end
return { now_ms, tasks, looked }`,
  },
  ledgerRelease: {
    sha: 'b689ad3afe95d4b3af267e7af0939d34fb466a0f',
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
local tallied, kept, objectives = {}, {}, {}
local KEPT = { done = true, dead = true, expired = true, slow = true }
local function objective_of(name)
  if objectives[name] == nil then objectives[name] = redis.call('HGET', root .. 'objectives', name) end
  return objectives[name]
end
local function add_to(counts, key, figure, by)
  local own = counts[key] or {}
  counts[key] = own
  own[figure] = (own[figure] or 0) + by
end
local function tally(name, queue, figure, by, is_message)
  tallied[name] = tallied[name] or {}
  add_to(tallied[name], queue, figure, by)
  if KEPT[figure] and not is_message and objective_of(name) then add_to(kept, name, figure, by) end
end
local function sent_ms(id, created)
  local high, low = string.match(id, '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-7%x%x%x%-')
  return math.min(created, high and tonumber(high .. low, 16) or created)
end
local function is_slow(name, id, created, eta)
  local objective = objective_of(name)
  local within = objective and tonumber(string.match(objective, '^%S+ (%S+)'))
  return within and now_ms - math.max(sent_ms(id, created), eta or 0) > within
end
local MOST_SERIES, OTHER_NAME = 20000, '(other)'
local function write_tallies()
  local key = root .. 'tally'
  for name, queues in pairs(tallied) do
    for queue, figures in pairs(queues) do
      for figure, by in pairs(figures) do
        local field = cmsgpack.pack({ name, queue, figure })
        if redis.call('HLEN', key) >= MOST_SERIES and redis.call('HEXISTS', key, field) == 0 then
          field = cmsgpack.pack({ OTHER_NAME, OTHER_NAME, figure })
        end
        redis.call('HINCRBY', key, field, by)
      end
    end
  end
  local minute = string.format('%.0f', now_ms - now_ms % 60000)
  for name, figures in pairs(kept) do
    for figure, by in pairs(figures) do redis.call('HINCRBY', root .. 'slo:' .. name, figure .. ':' .. minute, by) end
  end
end
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
local SLICE = 2000
local function in_slices(list, call)
  for first = 1, #list, SLICE do call(first, math.min(first + SLICE - 1, #list)) end
end
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
  if record[KEEP] < 0 or #(record[BODY] or '') < 0 then return end
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
local function path_in(options)
  local from = string.find(options, '"path":"', 1, true)
  local path = from and string.match(options, '^"path":"%d+%.%d+"', from)
  return path and '{' .. path .. '}' or ''
end
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS] = '', path_in(record[OPTIONS])
  record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = 0, 0
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
  if ending == 'purged' then return end
  tally(record[NAME], record[QUEUE], ending, 1)
  if ending == 'done' and is_slow(record[NAME], id, record[CREATED], record[ETA]) then tally(record[NAME], record[QUEUE], 'slow', 1) end
end
local function die(id, record, why, err)
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
  tally(record[NAME], record[QUEUE], 'dead', 1, record[EPOCH] == 0)
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
  in_slices(pairs_of_keys, function(first, last) redis.call('MSET', unpack(pairs_of_keys, first, last)) end)
  for owner, ids in pairs(ended) do
    in_slices(ids, function(first, last) redis.call('HDEL', root .. 'r:' .. owner, unpack(ids, first, last)) end)
  end
  for queue, by in pairs(moved) do
    if redis.call('HINCRBY', root .. 'running', queue, by) < 0 then redis.call('HSET', root .. 'running', queue, 0) end
  end
  for name, by in pairs(counted) do redis.call('HINCRBY', root .. 'ended', name, by) end
  write_tallies()
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
local function aside_set(queue, name)
  return root .. 'aside:' .. queue .. '\\n' .. name
end
local function set_aside(id, record, by)
  note(record, 'n')
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
    local mark = step .. ' ' .. run
    if not record then
      statuses[place] = 3
    elseif record[STATE] == 'r' and record[EPOCH] == epoch and record[RUN] == run then
      record[SETTLED] = mark
      let_go(id, record)
      apply(id, record, item)
      write(id, record)
      statuses[place] = 1
    else
      statuses[place] = record[SETTLED] == mark and 1 or 2
      if statuses[place] == 2 and step == 'c' then tally(record[NAME], record[QUEUE], 'stale', 1) end
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
    sha: '12a533100fefdbae052b0426aa2b65d959633659',
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
local tallied, kept, objectives = {}, {}, {}
local KEPT = { done = true, dead = true, expired = true, slow = true }
local function objective_of(name)
  if objectives[name] == nil then objectives[name] = redis.call('HGET', root .. 'objectives', name) end
  return objectives[name]
end
local function add_to(counts, key, figure, by)
  local own = counts[key] or {}
  counts[key] = own
  own[figure] = (own[figure] or 0) + by
end
local function tally(name, queue, figure, by, is_message)
  tallied[name] = tallied[name] or {}
  add_to(tallied[name], queue, figure, by)
  if KEPT[figure] and not is_message and objective_of(name) then add_to(kept, name, figure, by) end
end
local function sent_ms(id, created)
  local high, low = string.match(id, '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-7%x%x%x%-')
  return math.min(created, high and tonumber(high .. low, 16) or created)
end
local function is_slow(name, id, created, eta)
  local objective = objective_of(name)
  local within = objective and tonumber(string.match(objective, '^%S+ (%S+)'))
  return within and now_ms - math.max(sent_ms(id, created), eta or 0) > within
end
local MOST_SERIES, OTHER_NAME = 20000, '(other)'
local function write_tallies()
  local key = root .. 'tally'
  for name, queues in pairs(tallied) do
    for queue, figures in pairs(queues) do
      for figure, by in pairs(figures) do
        local field = cmsgpack.pack({ name, queue, figure })
        if redis.call('HLEN', key) >= MOST_SERIES and redis.call('HEXISTS', key, field) == 0 then
          field = cmsgpack.pack({ OTHER_NAME, OTHER_NAME, figure })
        end
        redis.call('HINCRBY', key, field, by)
      end
    end
  end
  local minute = string.format('%.0f', now_ms - now_ms % 60000)
  for name, figures in pairs(kept) do
    for figure, by in pairs(figures) do redis.call('HINCRBY', root .. 'slo:' .. name, figure .. ':' .. minute, by) end
  end
end
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
local SLICE = 2000
local function in_slices(list, call)
  for first = 1, #list, SLICE do call(first, math.min(first + SLICE - 1, #list)) end
end
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
  if record[KEEP] < 0 or #(record[BODY] or '') < 0 then return end
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
local function path_in(options)
  local from = string.find(options, '"path":"', 1, true)
  local path = from and string.match(options, '^"path":"%d+%.%d+"', from)
  return path and '{' .. path .. '}' or ''
end
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS] = '', path_in(record[OPTIONS])
  record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = 0, 0
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
  if ending == 'purged' then return end
  tally(record[NAME], record[QUEUE], ending, 1)
  if ending == 'done' and is_slow(record[NAME], id, record[CREATED], record[ETA]) then tally(record[NAME], record[QUEUE], 'slow', 1) end
end
local function die(id, record, why, err)
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
  tally(record[NAME], record[QUEUE], 'dead', 1, record[EPOCH] == 0)
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
  in_slices(pairs_of_keys, function(first, last) redis.call('MSET', unpack(pairs_of_keys, first, last)) end)
  for owner, ids in pairs(ended) do
    in_slices(ids, function(first, last) redis.call('HDEL', root .. 'r:' .. owner, unpack(ids, first, last)) end)
  end
  for queue, by in pairs(moved) do
    if redis.call('HINCRBY', root .. 'running', queue, by) < 0 then redis.call('HSET', root .. 'running', queue, 0) end
  end
  for name, by in pairs(counted) do redis.call('HINCRBY', root .. 'ended', name, by) end
  write_tallies()
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
local function aside_set(queue, name)
  return root .. 'aside:' .. queue .. '\\n' .. name
end
local function set_aside(id, record, by)
  note(record, 'n')
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
if record[WHY] == 'ERR_FOLLOW_UP_UNSENT' or record[WHY] == 'ERR_DESTINATION_REFUSED' then
  local message = { id }
  for place = NAME, BODY do message[place - NAME + 2] = record[place] end
  message[10] = record[BODY] or redis.call('GET', root .. 'b:' .. id)
  local key = id .. '/revived:' .. digits(version)
  write_after(key, cmsgpack.pack({ 'publish', message }))
  plan('ZADD', root .. 'after', 'XX', now_ms - 3600000, key)
  plan('UNLINK', root .. 't:' .. id, root .. 'b:' .. id)
  flush()
  return 1
end
record[FAILURES], record[CRASHES], record[ENDED] = 0, 0, 0
record[ENDING], record[WHY], record[ERROR] = '', '', ''
note(record, 'v')
wait(id, record, 0)
write(id, record)
flush()
return 1`,
  },
  ledgerSample: {
    sha: '4411250b65095659aebc883c116a2b0d07add0db',
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
  waiting = waiting + redis.call('ZCARD', root .. 'aside-queue:' .. queue)
  queues[#queues + 1] = { queue, waiting, math.max(0, tonumber(running[place + 1])) }
end
return {
  redis.call('HGETALL', root .. 'ended'),
  redis.call('ZCARD', root .. 'dead'),
  redis.call('ZCOUNT', root .. 'leases', string.format('%.0f', now_ms), '+inf'),
  queues,
  top > 0 and redis.call('ZREVRANGE', root .. 'failing', 0, top - 1, 'WITHSCORES') or {},
}`,
  },
  ledgerTallyAge: {
    sha: 'd2cad194e86047bb521ab7f5764997541674a52b',
    text: `#!lua flags=allow-oom
local root, name = KEYS[1], ARGV[1]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local HOUR_MS, MINUTES_KEPT_MS, BUCKETS_KEPT_MS, MOST_AHEAD_MS = 3600000, 25200000, 262800000, 3600000
local key = root .. 'slo:' .. name
local this_hour = now_ms - now_ms % HOUR_MS
local all = redis.call('HGETALL', key)
for place = 1, #all, 2 do
  local figure, start = string.match(all[place], '^(%l+):(%d+)$')
  local start_ms = tonumber(start or 0)
  local hour = start_ms - start_ms % HOUR_MS
  if start_ms > now_ms + MOST_AHEAD_MS or hour < this_hour - BUCKETS_KEPT_MS then
    redis.call('HDEL', key, all[place])
  elseif hour < this_hour - MINUTES_KEPT_MS and start_ms ~= hour then
    redis.call('HDEL', key, all[place])
    redis.call('HINCRBY', key, figure .. ':' .. string.format('%.0f', hour), all[place + 1])
  end
end
return 1`,
  },
  ledgerTell: {
    sha: '7104d3502efddcd07200c543cd38553a2385505e',
    text: `#!lua flags=allow-oom
local root, celery_keep_ms, status, result, traceback, of = KEYS[1], tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local STATE, EPOCH, RUN, OWNER, SETTLED = 1, 2, 3, 4, 5
local NAME, QUEUE, PRIORITY, VERSION, DIGEST = 6, 7, 8, 9, 10
local ETA, EXPIRES, OPTIONS, BODY = 11, 12, 13, 14
local FAILURES, CRASHES, BUDGET, DUE, SEQ = 15, 16, 17, 18, 19
local CREATED, HISTORY, CHECKPOINT_EPOCH, CHECKPOINT_SEQ = 20, 21, 22, 23
local DEATHS, ENDING, ENDED, WHY, ERROR, RESULT, KEEP = 24, 25, 26, 27, 28, 29, 30
local tallied, kept, objectives = {}, {}, {}
local KEPT = { done = true, dead = true, expired = true, slow = true }
local function objective_of(name)
  if objectives[name] == nil then objectives[name] = redis.call('HGET', root .. 'objectives', name) end
  return objectives[name]
end
local function add_to(counts, key, figure, by)
  local own = counts[key] or {}
  counts[key] = own
  own[figure] = (own[figure] or 0) + by
end
local function tally(name, queue, figure, by, is_message)
  tallied[name] = tallied[name] or {}
  add_to(tallied[name], queue, figure, by)
  if KEPT[figure] and not is_message and objective_of(name) then add_to(kept, name, figure, by) end
end
local function sent_ms(id, created)
  local high, low = string.match(id, '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-7%x%x%x%-')
  return math.min(created, high and tonumber(high .. low, 16) or created)
end
local function is_slow(name, id, created, eta)
  local objective = objective_of(name)
  local within = objective and tonumber(string.match(objective, '^%S+ (%S+)'))
  return within and now_ms - math.max(sent_ms(id, created), eta or 0) > within
end
local MOST_SERIES, OTHER_NAME = 20000, '(other)'
local function write_tallies()
  local key = root .. 'tally'
  for name, queues in pairs(tallied) do
    for queue, figures in pairs(queues) do
      for figure, by in pairs(figures) do
        local field = cmsgpack.pack({ name, queue, figure })
        if redis.call('HLEN', key) >= MOST_SERIES and redis.call('HEXISTS', key, field) == 0 then
          field = cmsgpack.pack({ OTHER_NAME, OTHER_NAME, figure })
        end
        redis.call('HINCRBY', key, field, by)
      end
    end
  end
  local minute = string.format('%.0f', now_ms - now_ms % 60000)
  for name, figures in pairs(kept) do
    for figure, by in pairs(figures) do redis.call('HINCRBY', root .. 'slo:' .. name, figure .. ':' .. minute, by) end
  end
end
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
local SLICE = 2000
local function in_slices(list, call)
  for first = 1, #list, SLICE do call(first, math.min(first + SLICE - 1, #list)) end
end
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
  if record[KEEP] < 0 or #(record[BODY] or '') < 0 then return end
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
local function path_in(options)
  local from = string.find(options, '"path":"', 1, true)
  local path = from and string.match(options, '^"path":"%d+%.%d+"', from)
  return path and '{' .. path .. '}' or ''
end
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS] = '', path_in(record[OPTIONS])
  record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = 0, 0
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
  if ending == 'purged' then return end
  tally(record[NAME], record[QUEUE], ending, 1)
  if ending == 'done' and is_slow(record[NAME], id, record[CREATED], record[ETA]) then tally(record[NAME], record[QUEUE], 'slow', 1) end
end
local function die(id, record, why, err)
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
  tally(record[NAME], record[QUEUE], 'dead', 1, record[EPOCH] == 0)
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
  in_slices(pairs_of_keys, function(first, last) redis.call('MSET', unpack(pairs_of_keys, first, last)) end)
  for owner, ids in pairs(ended) do
    in_slices(ids, function(first, last) redis.call('HDEL', root .. 'r:' .. owner, unpack(ids, first, last)) end)
  end
  for queue, by in pairs(moved) do
    if redis.call('HINCRBY', root .. 'running', queue, by) < 0 then redis.call('HSET', root .. 'running', queue, 0) end
  end
  for name, by in pairs(counted) do redis.call('HINCRBY', root .. 'ended', name, by) end
  write_tallies()
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
local function write_celery(id, status, result, traceback, more, children)
  local key = 'celery-task-meta-' .. id
  local date = UNDER_WAY[status] and 'null' or iso_json()
  local shown = string.find(id, '^[%w-]+$') and id or string.sub(cjson.encode(id), 2, -2)
  local text = '{"status": "' .. status .. '", "result": ' .. result .. ', "traceback": ' .. traceback
    .. ', "children": ' .. (children or '[]') .. ', "date_done": ' .. date .. ', "task_id": "' .. shown .. '"' .. (more or '') .. '}'
  plan('SET', key, text, 'PXAT', digits(now_ms + celery_keep_ms))
  plan('PUBLISH', key, text)
end
local function tell_celery(id, record, status, result, traceback, children)
  if celery_keep_ms == 0 or string.find(record[OPTIONS], '"keepResult":false', 1, true) then return end
  write_celery(id, status, result, traceback, nil, children)
end
local function exception_text(kind, message, module)
  return '{"exc_type": ' .. cjson.encode(kind) .. ', "exc_message": [' .. cjson.encode(message) .. '], "exc_module": "' .. module .. '"}'
end
local function python_exception(kind)
  if not string.find(kind, '^[%w_]+$') then return kind, 'outlast' end
  local module, name = string.match(' ArithmeticError=builtins.ArithmeticError AssertionError=builtins.AssertionError AttributeError=builtins.AttributeError BlockingIOError=builtins.BlockingIOError BrokenPipeError=builtins.BrokenPipeError BufferError=builtins.BufferError ChildProcessError=builtins.ChildProcessError ConnectionAbortedError=builtins.ConnectionAbortedError ConnectionError=builtins.ConnectionError ConnectionRefusedError=builtins.ConnectionRefusedError ConnectionResetError=builtins.ConnectionResetError EOFError=builtins.EOFError Exception=builtins.Exception FileExistsError=builtins.FileExistsError FileNotFoundError=builtins.FileNotFoundError FloatingPointError=builtins.FloatingPointError IOError=builtins.IOError ImportError=builtins.ImportError IndexError=builtins.IndexError InterruptedError=builtins.InterruptedError IsADirectoryError=builtins.IsADirectoryError KeyError=builtins.KeyError LookupError=builtins.LookupError MemoryError=builtins.MemoryError ModuleNotFoundError=builtins.ModuleNotFoundError NameError=builtins.NameError NotADirectoryError=builtins.NotADirectoryError NotImplementedError=builtins.NotImplementedError OSError=builtins.OSError OverflowError=builtins.OverflowError PermissionError=builtins.PermissionError ProcessLookupError=builtins.ProcessLookupError RecursionError=builtins.RecursionError ReferenceError=builtins.ReferenceError RuntimeError=builtins.RuntimeError SyntaxError=builtins.SyntaxError SystemError=builtins.SystemError TimeoutError=builtins.TimeoutError TypeError=builtins.TypeError UnicodeError=builtins.UnicodeError ValueError=builtins.ValueError ZeroDivisionError=builtins.ZeroDivisionError ChordError=celery.exceptions.ChordError ImproperlyConfigured=celery.exceptions.ImproperlyConfigured InvalidTaskError=celery.exceptions.InvalidTaskError MaxRetriesExceededError=celery.exceptions.MaxRetriesExceededError NotRegistered=celery.exceptions.NotRegistered QueueNotFound=celery.exceptions.QueueNotFound SecurityError=celery.exceptions.SecurityError TaskError=celery.exceptions.TaskError TaskRevokedError=celery.exceptions.TaskRevokedError SoftTimeLimitExceeded=billiard.exceptions.SoftTimeLimitExceeded TimeLimitExceeded=billiard.exceptions.TimeLimitExceeded WorkerLostError=billiard.exceptions.WorkerLostError ERR_TIMEOUT=billiard.exceptions.TimeLimitExceeded ERR_RESURRECTIONS_SPENT=billiard.exceptions.WorkerLostError ERR_TASK_UNKNOWN=celery.exceptions.NotRegistered ERR_UNDECODABLE=kombu.exceptions.DecodeError ERR_CHORD_UNCOUNTED=builtins.NotImplementedError ', ' ' .. kind .. '=([%w.]+)%.(%w+) ')
  return name or kind, module or 'outlast'
end
local function tell_celery_error(id, record, status, err)
  if celery_keep_ms == 0 then return end
  local is_read, read_error = pcall(cjson.decode, err)
  if not is_read then read_error = { type = 'Error', message = 'see the dead letter', traceback = '' } end
  local traceback = read_error.traceback ~= '' and cjson.encode(read_error.traceback) or 'null'
  local kind, module = python_exception(read_error.type)
  tell_celery(id, record, status, exception_text(kind, read_error.message, module), traceback)
end
local function tell_celery_revoked(id, record, why)
  tell_celery(id, record, 'REVOKED', exception_text('TaskRevokedError', why, 'celery.exceptions'), 'null')
end
local told = 0
for place = 6, #ARGV do
  local id = ARGV[place]
  local head = redis.call('GETRANGE', 'celery-task-meta-' .. id, 0, 40)
  local is_done = string.find(head, '"status": "SUCCESS"', 1, true)
  if not is_done and redis.call('EXISTS', root .. 't:' .. id) == 0 then
    write_celery(id, status, result, traceback, ', "outlast_ended": ' .. cjson.encode(of))
    told = told + 1
  end
end
flush()
return told`,
  },
  ledgerTotals: {
    sha: 'f27a25c46e389fc9be983b262b5146d68006daf7',
    text: `#!lua flags=no-writes
local root = KEYS[1]
return redis.call('HGETALL', root .. 'tally')`,
  },
  ledgerWake: {
    sha: '518411561026a3d175e62d3bf695b5f422467c00',
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
local tallied, kept, objectives = {}, {}, {}
local KEPT = { done = true, dead = true, expired = true, slow = true }
local function objective_of(name)
  if objectives[name] == nil then objectives[name] = redis.call('HGET', root .. 'objectives', name) end
  return objectives[name]
end
local function add_to(counts, key, figure, by)
  local own = counts[key] or {}
  counts[key] = own
  own[figure] = (own[figure] or 0) + by
end
local function tally(name, queue, figure, by, is_message)
  tallied[name] = tallied[name] or {}
  add_to(tallied[name], queue, figure, by)
  if KEPT[figure] and not is_message and objective_of(name) then add_to(kept, name, figure, by) end
end
local function sent_ms(id, created)
  local high, low = string.match(id, '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-7%x%x%x%-')
  return math.min(created, high and tonumber(high .. low, 16) or created)
end
local function is_slow(name, id, created, eta)
  local objective = objective_of(name)
  local within = objective and tonumber(string.match(objective, '^%S+ (%S+)'))
  return within and now_ms - math.max(sent_ms(id, created), eta or 0) > within
end
local MOST_SERIES, OTHER_NAME = 20000, '(other)'
local function write_tallies()
  local key = root .. 'tally'
  for name, queues in pairs(tallied) do
    for queue, figures in pairs(queues) do
      for figure, by in pairs(figures) do
        local field = cmsgpack.pack({ name, queue, figure })
        if redis.call('HLEN', key) >= MOST_SERIES and redis.call('HEXISTS', key, field) == 0 then
          field = cmsgpack.pack({ OTHER_NAME, OTHER_NAME, figure })
        end
        redis.call('HINCRBY', key, field, by)
      end
    end
  end
  local minute = string.format('%.0f', now_ms - now_ms % 60000)
  for name, figures in pairs(kept) do
    for figure, by in pairs(figures) do redis.call('HINCRBY', root .. 'slo:' .. name, figure .. ':' .. minute, by) end
  end
end
local INLINE_BYTES = 1024
local HISTORY_BYTES = 65536
local DAY_MS = 86400000
local records, writes, created, new_pairs = {}, {}, {}, {}
local planned, ended, moved, counted = {}, {}, {}, {}
local is_ready = false
local function plan(...) planned[#planned + 1] = { ... } end
local SLICE = 2000
local function in_slices(list, call)
  for first = 1, #list, SLICE do call(first, math.min(first + SLICE - 1, #list)) end
end
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
  if record[KEEP] < 0 or #(record[BODY] or '') < 0 then return end
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
local function path_in(options)
  local from = string.find(options, '"path":"', 1, true)
  local path = from and string.match(options, '^"path":"%d+%.%d+"', from)
  return path and '{' .. path .. '}' or ''
end
local function drop_bytes(id, record)
  if record[BODY] == false then plan('UNLINK', root .. 'b:' .. id) end
  if record[CHECKPOINT_EPOCH] > 0 then plan('UNLINK', root .. 'c:' .. id) end
  record[BODY], record[OPTIONS] = '', path_in(record[OPTIONS])
  record[CHECKPOINT_EPOCH], record[CHECKPOINT_SEQ] = 0, 0
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
  if ending == 'purged' then return end
  tally(record[NAME], record[QUEUE], ending, 1)
  if ending == 'done' and is_slow(record[NAME], id, record[CREATED], record[ETA]) then tally(record[NAME], record[QUEUE], 'slow', 1) end
end
local function die(id, record, why, err)
  if record[EPOCH] > 0 and why ~= 'ERR_DIGEST' then write_ended(id, record, 'dead') end
  record[STATE], record[ENDING], record[ENDED] = 'x', 'dead', now_ms
  record[RUN], record[OWNER] = '', ''
  record[DEATHS], record[WHY], record[ERROR] = record[DEATHS] + 1, why, err
  if record[FAILURES] + record[CRASHES] == 0 then blame(record, 1) end
  plan('ZADD', root .. 'dead', now_ms, id)
  tally(record[NAME], record[QUEUE], 'dead', 1, record[EPOCH] == 0)
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
  in_slices(pairs_of_keys, function(first, last) redis.call('MSET', unpack(pairs_of_keys, first, last)) end)
  for owner, ids in pairs(ended) do
    in_slices(ids, function(first, last) redis.call('HDEL', root .. 'r:' .. owner, unpack(ids, first, last)) end)
  end
  for queue, by in pairs(moved) do
    if redis.call('HINCRBY', root .. 'running', queue, by) < 0 then redis.call('HSET', root .. 'running', queue, 0) end
  end
  for name, by in pairs(counted) do redis.call('HINCRBY', root .. 'ended', name, by) end
  write_tallies()
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
local function aside_set(queue, name)
  return root .. 'aside:' .. queue .. '\\n' .. name
end
local function set_aside(id, record, by)
  note(record, 'n')
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
local function wait(id, record, delay_ms)
  record[STATE], record[RUN], record[OWNER] = 'w', '', ''
  if delay_ms then record[DUE] = now_ms + delay_ms end
  enter(id, record)
end
local woken = 0
read(ids)
for _, id in ipairs(ids) do
  local record = records[id]
  if record and record[STATE] == 'w' then
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
return woken`,
  },
  release: {
    sha: '8daaae06600212e098b22c9343310a693cd181ae',
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
local leases, held, consumer, limit = KEYS[5], KEYS[6], ARGV[1], tonumber(ARGV[2])
local tags = redis.call('HKEYS', held)
local returned = put_back(held, tags, { KEYS[1], KEYS[2], KEYS[3], KEYS[4] }, limit)
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
    sha: 'd230b23e46510007d219f2217d450c075ee7973f',
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
local MOST_BYTES, PART = 8388608, 4
local bytes = 0
local function reap(lists, leases, prefix)
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now_ms, 'LIMIT', 0, 10)) do
    local held = prefix .. name
    if name ~= consumer and reap_limit > 0 then
      reap_limit = reap_limit - put_back(held, redis.call('HKEYS', held), lists, reap_limit)
    end
    if redis.call('EXISTS', held) == 0 then redis.call('ZREM', leases, name) end
  end
end
local function pop(list, most)
  local popped = {}
  while #popped < most and bytes < MOST_BYTES do
    local some = redis.pcall('RPOP', list, math.min(PART, most - #popped))
    if not some or some.err then return popped end
    for _, element in ipairs(some) do
      popped[#popped + 1] = element
      bytes = bytes + #element
    end
    if #some < PART then return popped end
  end
  return popped
end
local function move(list, step, place, held)
  local popped = pop(list, left)
  if #popped == 0 then return end
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
};
