// Written by scripts/embed-assets.mjs from the .lua files; edit those and run npm run build.
export const LUA = {
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
    sha: 'ede3126fb902108d6e1d466567ebcb24d19e44c4',
    text: `#!lua flags=allow-oom
local function put_back(held, tags, lists, most)
  table.sort(tags)
  local returned = 0
  for index = #tags, math.max(1, #tags - most + 1), -1 do
    local value = redis.call('HGET', held, tags[index])
    if value then
      local pushed = redis.pcall('RPUSH', lists[tonumber(string.sub(value, 1, 1))], string.sub(value, 2))
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
  release: {
    sha: '8d37a81c28ee0645c8cdbe9ac276bec82d1d88b6',
    text: `#!lua flags=allow-oom
local function put_back(held, tags, lists, most)
  table.sort(tags)
  local returned = 0
  for index = #tags, math.max(1, #tags - most + 1), -1 do
    local value = redis.call('HGET', held, tags[index])
    if value then
      local pushed = redis.pcall('RPUSH', lists[tonumber(string.sub(value, 1, 1))], string.sub(value, 2))
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
    sha: 'd2ad871d0c555844faae36404edf0a4a5f50a20e',
    text: `#!lua flags=allow-oom
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local function put_back(held, tags, lists, most)
  table.sort(tags)
  local returned = 0
  for index = #tags, math.max(1, #tags - most + 1), -1 do
    local value = redis.call('HGET', held, tags[index])
    if value then
      local pushed = redis.pcall('RPUSH', lists[tonumber(string.sub(value, 1, 1))], string.sub(value, 2))
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
local stamp = time[1] .. string.format('%06d', time[2])
local reply, count = {}, 0
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
  local fields = {}
  for _, element in ipairs(popped) do
    count = count + 1
    local tag = stamp .. string.format('.%05d.', count) .. token
    fields[#fields + 1] = tag
    fields[#fields + 1] = step .. element
    for _, value in ipairs({ place, step, tag, element }) do reply[#reply + 1] = value end
  end
  redis.call('HSET', held, unpack(fields))
  left = left - #popped
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
