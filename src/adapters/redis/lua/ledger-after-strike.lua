#!lua flags=allow-oom
-- Strikes off what was carried out.
-- keys: root
-- args: entries...
-- returns: 1
local root = KEYS[1]
redis.call('ZREM', root .. 'after', unpack(ARGV))
redis.call('HDEL', root .. 'after-entries', unpack(ARGV))
return 1
