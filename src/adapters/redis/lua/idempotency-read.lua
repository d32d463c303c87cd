#!lua flags=no-writes
-- A key as shown to operators.
-- keys: root
-- args: key
-- bound: one key and its waiters, up to 200
-- returns: the server's time, milliseconds left or -1, fields and values
local root, key = KEYS[1], ARGV[1]
-- include: now
local record = root .. 'k:' .. key
return { now_ms, redis.call('PTTL', record), redis.call('HGETALL', record) }
