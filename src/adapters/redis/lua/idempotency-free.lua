#!lua flags=allow-oom
-- Forgets a key that this run holds; where asked for also its result.
-- keys: root
-- args: key, task, epoch, even_done
-- returns: the tasks that met it held | nothing when it is not this run's key any more
local root, key, task, epoch, even_done = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'
-- include: idempotency-waiters
local record = root .. 'k:' .. key
local found = redis.call('HMGET', record, 'state', 'task', 'epoch')
if found[2] ~= task or found[3] ~= epoch then return false end
if found[1] ~= 'held' and not even_done then return false end
local waiters = waiters_of(record)
redis.call('UNLINK', record)
redis.call('ZREM', root .. 'held', key)
return waiters
