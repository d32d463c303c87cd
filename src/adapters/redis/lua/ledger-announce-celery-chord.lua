#!lua flags=allow-oom
-- Tells Celery's workers how many parts a chord has, before its header is sent. A header may be sent again, by a process that
-- does not know of the first time: then the chord may be complete, and with a size its parts would complete it again.
-- keys: announced, total
-- args: size, keep_ms
-- bound: one chord
-- returns: nothing
local announced, total = KEYS[1], KEYS[2]
local size, keep_ms = ARGV[1], ARGV[2]
if redis.call('HSETNX', announced, 'size', size) == 1 then
  redis.call('PEXPIRE', announced, keep_ms)
  redis.call('SET', total, size, 'NX', 'PX', keep_ms)
end
