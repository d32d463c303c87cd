#!lua flags=allow-oom
-- A worker reports its queues, for the length of its lease, and gets the operators' instructions.
-- keys: root
-- args: worker, lease_ms, row
-- bound: one worker, and the names of paused queues
-- returns: 1 when it is to end, else 0; the queues that are paused
local root = KEYS[1]
local worker, lease_ms, row = ARGV[1], tonumber(ARGV[2]), ARGV[3]
-- include: now
redis.call('ZADD', root .. 'consumers', now_ms + lease_ms, worker)
redis.call('HSET', root .. 'consumer', worker, row)
return { redis.call('SISMEMBER', root .. 'draining', worker), redis.call('SMEMBERS', root .. 'paused') }
