#!lua flags=allow-oom
-- Remembers since when a chord has been open. Its parts may be in another slot, so this is said apart, and after them.
-- keys: index
-- args: group_id
-- returns: nothing
local index, group_id = KEYS[1], ARGV[1]
-- include: now
redis.call('ZADD', index, 'NX', string.format('%.0f', now_ms), group_id)
