#!lua flags=allow-oom
-- A consumer goes: all that it holds is put back at once, and its lease ends.
-- keys: first, second, third, last, leases, held
-- args: consumer
-- returns: how many elements went back
-- include: put-back
local leases, held, consumer = KEYS[5], KEYS[6], ARGV[1]
local tags = redis.call('HKEYS', held)
local returned = put_back(held, tags, { KEYS[1], KEYS[2], KEYS[3], KEYS[4] }, #tags)
if returned == #tags then redis.call('ZREM', leases, consumer) end
return returned
