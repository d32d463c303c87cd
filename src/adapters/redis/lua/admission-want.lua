#!lua flags=allow-oom
-- Registers a task that waits for a reservation, unless one is free by now. Wishes expire: the task asks again within
-- minutes.
-- keys: places, wanted
-- args: limit, task
-- bound: one task
-- returns: 1 one is free | 0 it waits
local places, wanted = KEYS[1], KEYS[2]
local limit, task = tonumber(ARGV[1]), ARGV[2]
-- include: now-us
if redis.call('ZCARD', places) < limit then return 1 end
redis.call('ZADD', wanted, 'NX', digits(now_us), task)
redis.call('PEXPIRE', wanted, 3600000)
return 0
