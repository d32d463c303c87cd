#!lua flags=allow-oom
-- Stores the result of the run that holds the key, with an expiry from now. A repeat changes nothing. Without a value
-- the last argument is left out.
-- keys: root
-- args: key, task, epoch, run, ttl_ms, result
-- bound: one key and its waiters, up to 200
-- returns: the tasks that met it held | nothing when it is not this run's key any more
local root, key, task, epoch, run = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local ttl_ms, result = ARGV[5], ARGV[6]
-- include: idempotency-waiters
local record = root .. 'k:' .. key
local found = redis.call('HMGET', record, 'state', 'task', 'epoch', 'freed_by', 'run')
if found[2] ~= task or found[3] ~= epoch or (found[5] or run) ~= run or found[4] == task .. '@' .. epoch then return false end
if found[1] == 'held' then
  redis.call('HSET', record, 'state', 'done')
  if result then redis.call('HSET', record, 'result', result) end
  redis.call('PEXPIRE', record, ttl_ms)
  redis.call('ZREM', root .. 'held', key)
end
return waiters_of(record)
