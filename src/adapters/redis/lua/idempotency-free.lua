#!lua flags=allow-oom
-- Frees a key that this run holds; with `even_done` its result is dropped too. If effects under the key are remembered,
-- the record stays for that time, free for any task.
-- keys: root
-- args: key, task, epoch, run, even_done
-- bound: one key and its waiters, up to 200
-- returns: the tasks that met it held | nothing when it is not this run's key any more
local root, key, task, epoch, run, even_done = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5] == '1'
-- include: idempotency-waiters
local record = root .. 'k:' .. key
local found = redis.call('HMGET', record, 'state', 'task', 'epoch', 'freed_by', 'ttl', 'run')
if found[2] ~= task or found[3] ~= epoch or (found[6] or run) ~= run then return false end
local freed_by = task .. '@' .. epoch
if (found[1] ~= 'held' or found[4] == freed_by) and not even_done then return false end
local waiters = waiters_of(record)
local ttl_ms = found[5]
if even_done or not ttl_ms or ttl_ms == '' then
  redis.call('UNLINK', record)
else
  for _, waiter in ipairs(waiters) do redis.call('HDEL', record, 'w:' .. waiter) end
  redis.call('HSET', record, 'freed_by', freed_by)
  redis.call('PEXPIRE', record, ttl_ms)
end
redis.call('ZREM', root .. 'held', key)
return waiters
