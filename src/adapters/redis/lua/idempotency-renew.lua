#!lua flags=allow-oom
-- Moves the end of a lease; one that is over is not there any more.
-- keys: root
-- args: key, task, epoch, lease_ms
-- returns: 1 moved | 0 it is not this owner's
local root, key, task, epoch, lease_ms = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local record = root .. 'k:' .. key
local found = redis.call('HMGET', record, 'state', 'task', 'epoch', 'freed_by')
if found[1] ~= 'held' or found[2] ~= task or found[3] ~= epoch or found[4] == task .. '@' .. epoch then return 0 end
return redis.call('PEXPIRE', record, lease_ms)
