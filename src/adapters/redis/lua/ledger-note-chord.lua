#!lua flags=allow-oom
-- Records since when a chord has been open. Its parts may be in another hash slot, so this is a separate step, after
-- them.
-- keys: index
-- args: group_id
-- bound: one chord
-- returns: nothing
local index, group_id = KEYS[1], ARGV[1]
-- include: now
redis.call('ZADD', index, 'NX', string.format('%.0f', now_ms), group_id)
