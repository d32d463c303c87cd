#!lua flags=allow-oom
-- Extends a consumer's lease and returns what it holds. A consumer that holds nothing needs no lease.
-- keys: leases, held
-- args: consumer, lease_ms
-- bound: the tags of all that one consumer holds are read
-- returns: the tags of all that it holds
-- include: now
local leases, held = KEYS[1], KEYS[2]
local consumer, lease_ms = ARGV[1], tonumber(ARGV[2])
local tags = redis.call('HKEYS', held)
if #tags == 0 then
  redis.call('ZREM', leases, consumer)
else
  redis.call('ZADD', leases, now_ms + lease_ms, consumer)
end
return tags
