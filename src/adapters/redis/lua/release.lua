#!lua flags=allow-oom
-- A consumer leaves: its elements are put back, up to `limit` in one call, and its lease ends with the last of them.
-- keys: first, second, third, last, leases, held
-- args: consumer, limit
-- bound: `limit` elements; the tags of all that one consumer holds are read
-- returns: how many elements went back
-- include: put-back
local leases, held, consumer, limit = KEYS[5], KEYS[6], ARGV[1], tonumber(ARGV[2])
local tags = redis.call('HKEYS', held)
local returned = put_back(held, tags, { KEYS[1], KEYS[2], KEYS[3], KEYS[4] }, limit)
if returned == #tags then redis.call('ZREM', leases, consumer) end
return returned
