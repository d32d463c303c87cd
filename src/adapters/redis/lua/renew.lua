#!lua flags=allow-oom
-- Moves the end of a consumer's lease and tells what it holds. Who holds nothing needs no lease.
-- keys: leases, held
-- args: consumer, lease_ms
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
