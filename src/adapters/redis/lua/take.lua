#!lua flags=allow-oom
-- Moves up to `limit` elements from the lists of queues into the hash of what this consumer holds, with a lease. First
-- it puts back the elements of consumers whose lease is over. An element is in a list or in one hash at any moment, so a
-- consumer may die anywhere.
--
-- Each queue has six keys: its lists from the most to the least urgent step, the leases of its consumers, and the prefix
-- of their hashes. A field of a hash is a tag, its value the element. Tags start with the time, so that they sort in the
-- order of taking; then the index of the list, and last the caller's random token, so that no two are ever the same. The
-- caller composes them in the same way.
-- keys: queue_keys...
-- args: consumer, token, lease_ms, limit, reap_limit
-- bound: `limit` elements, up to 1000, or 8 MiB; `reap_limit` of dead consumers, whose tags are read
-- returns: the prefix of the tags; then for each list: index of the queue, index of the list, number of its first tag,
--   elements
-- include: now
-- include: put-back
local consumer, token, lease_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])
local left, reap_limit = tonumber(ARGV[4]), tonumber(ARGV[5])
local stamp = time[1] .. string.format('%06d', time[2]) .. '.'
-- Five-digit numbers sort like texts.
local reply, count = { stamp }, 10000
-- The size of an element is known only when it is popped: so they are popped a few at a time, up to this many bytes.
local MOST_BYTES, PART = 8388608, 4
local bytes = 0

local function reap(lists, leases, prefix)
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now_ms, 'LIMIT', 0, 10)) do
    local held = prefix .. name
    -- The calling consumer is alive, however late.
    if name ~= consumer and reap_limit > 0 then
      reap_limit = reap_limit - put_back(held, redis.call('HKEYS', held), lists, reap_limit)
    end
    if redis.call('EXISTS', held) == 0 then redis.call('ZREM', leases, name) end
  end
end

local function pop(list, most)
  local popped = {}
  while #popped < most and bytes < MOST_BYTES do
    -- A key that is not a list is skipped: it must not block the other queues.
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
  -- Before anything is popped: a key of another type must fail while the elements are still in their lists.
  redis.call('HLEN', held)
  for step, list in ipairs(lists) do
    if left > 0 then move(list, step, place, held) end
  end
  if count > before then redis.call('ZADD', leases, now_ms + lease_ms, consumer) end
end
return reply
