#!lua flags=allow-oom
-- Whether a permit still holds. The first task that names it owns it; the same task may ask again.
-- keys: permit
-- args: task
-- bound: one permit
-- returns: 1 it holds | 0 it is over, or another's
local permit, task = KEYS[1], ARGV[1]
local owner = redis.call('GET', permit)
if not owner then return 0 end
if owner == '' then redis.call('SET', permit, task, 'KEEPTTL') end
return (owner == '' or owner == task) and 1 or 0
