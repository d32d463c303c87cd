#!lua flags=allow-oom
-- Moves up to `limit` elements out of the lists of queues into the hash of what this consumer holds, with a lease. First
-- it puts back what consumers held whose lease is over. An element is in a list or in one hash at any moment, so a
-- consumer may die anywhere.
--
-- Each queue has six keys: its lists from the most urgent step to the least, the leases of those who hold something, and
-- what the names of their hashes begin with. A field of a hash is a tag, its value the element. Tags begin with the time,
-- so that they sort in the order of taking; then comes the place of the list, and at last the caller's random token, so
-- that no two are ever the same. The caller puts them together as is done here.
-- keys: queue_keys...
-- args: consumer, token, lease_ms, limit, reap_limit
-- returns: what tags begin with; then for each list: place of the queue, place of the list, number of its first tag,
--   elements
-- include: now
-- include: put-back
local consumer, token, lease_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])
local left, reap_limit = tonumber(ARGV[4]), tonumber(ARGV[5])
local stamp = time[1] .. string.format('%06d', time[2]) .. '.'
-- Numbers of five digits sort as texts do.
local reply, count = { stamp }, 10000

local function reap(lists, leases, prefix)
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now_ms, 'LIMIT', 0, 10)) do
    local held = prefix .. name
    -- Whoever asks is alive, however late.
    if name ~= consumer then put_back(held, redis.call('HKEYS', held), lists, reap_limit) end
    if redis.call('EXISTS', held) == 0 then redis.call('ZREM', leases, name) end
  end
end

local function move(list, step, place, held)
  -- What is not a list is passed by: it must not keep us from the other queues.
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
  -- Before anything is popped: a key of another type must fail while the elements are still in their lists.
  redis.call('HLEN', held)
  for step, list in ipairs(lists) do
    if left > 0 then move(list, step, place, held) end
  end
  if count > before then redis.call('ZADD', leases, now_ms + lease_ms, consumer) end
end
return reply
