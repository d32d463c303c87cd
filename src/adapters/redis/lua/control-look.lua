#!lua flags=allow-oom
-- A worker says what it takes from, for as long as its lease, and is told what operators want.
-- keys: root
-- args: worker, lease_ms, row
-- returns: 1 when it is to end, else 0; the queues that are paused
local root = KEYS[1]
local worker, lease_ms, row = ARGV[1], tonumber(ARGV[2]), ARGV[3]
-- include: now
redis.call('ZADD', root .. 'consumers', now_ms + lease_ms, worker)
redis.call('HSET', root .. 'consumer', worker, row)
return { redis.call('SISMEMBER', root .. 'draining', worker), redis.call('SMEMBERS', root .. 'paused') }
