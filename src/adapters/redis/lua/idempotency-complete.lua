#!lua flags=allow-oom
-- Keeps the result of the run that holds the key, for its time from now. Told again it changes nothing. Without a value the last argument is left out.
-- keys: root
-- args: key, task, epoch, ttl_ms, result
-- returns: the tasks that met it held | nothing when it is not this run's key any more
local root, key, task, epoch, ttl_ms, result = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
-- include: idempotency-waiters
local record = root .. 'k:' .. key
local found = redis.call('HMGET', record, 'state', 'task', 'epoch', 'freed_by')
if found[2] ~= task or found[3] ~= epoch or found[4] == task .. '@' .. epoch then return false end
if found[1] == 'held' then
  redis.call('HSET', record, 'state', 'done')
  if result then redis.call('HSET', record, 'result', result) end
  redis.call('PEXPIRE', record, ttl_ms)
  redis.call('ZREM', root .. 'held', key)
end
return waiters_of(record)
