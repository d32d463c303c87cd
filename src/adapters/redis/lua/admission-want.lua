#!lua flags=allow-oom
-- A task waits for a place, unless there is one by now. Wishes have an end: whoever has one asks again within minutes.
-- keys: places, wanted
-- args: limit, task
-- returns: 1 there is room | 0 it waits
local places, wanted = KEYS[1], KEYS[2]
local limit, task = tonumber(ARGV[1]), ARGV[2]
-- include: now-us
if redis.call('ZCARD', places) < limit then return 1 end
redis.call('ZADD', wanted, 'NX', digits(now_us), task)
redis.call('PEXPIRE', wanted, 3600000)
return 0
