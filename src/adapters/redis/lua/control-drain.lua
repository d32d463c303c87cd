#!lua flags=allow-oom
-- Asks one worker to end; it finds this at its next look.
-- keys: root
-- args: worker
-- bound: one worker
-- returns: 1 asked | 0 no such worker lives
local root, worker = KEYS[1], ARGV[1]
-- include: now
local until_ms = redis.call('ZSCORE', root .. 'consumers', worker)
if not until_ms or tonumber(until_ms) < now_ms then return 0 end
redis.call('SADD', root .. 'draining', worker)
return 1
