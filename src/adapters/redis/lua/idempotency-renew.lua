#!lua flags=allow-oom
-- Extends a lease; one that is over no longer exists.
-- keys: root
-- args: key, task, epoch, run, lease_ms
-- bound: one key
-- returns: 1 moved | 0 it is not this owner's
local root, key, task, epoch, run, lease_ms = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local record = root .. 'k:' .. key
local found = redis.call('HMGET', record, 'state', 'task', 'epoch', 'freed_by', 'run')
if found[1] ~= 'held' or found[2] ~= task or found[3] ~= epoch then return 0 end
if (found[5] or run) ~= run or found[4] == task .. '@' .. epoch then return 0 end
return redis.call('PEXPIRE', record, lease_ms)
