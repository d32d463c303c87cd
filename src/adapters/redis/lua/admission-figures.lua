#!lua flags=no-writes
-- The figures of a key.
-- keys: state, places, wanted
-- args: none
-- bound: one key
-- returns: the server's clock in microseconds, places, wishes, and the fields of the state with their values
local state, places, wanted = KEYS[1], KEYS[2], KEYS[3]
-- include: now-us
return { digits(now_us), redis.call('ZCARD', places), redis.call('ZCARD', wanted), redis.call('HGETALL', state) }
