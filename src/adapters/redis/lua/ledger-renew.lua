#!lua flags=allow-oom
-- Extends the single deadline of a whole process, and returns its runs here. Late is not dead: only `condemn` decides
-- that.
-- keys: root
-- args: worker
-- bound: what one worker runs is read
-- returns: 'closed' | 'open', and for each run its task, then epoch and run in one text
local root, worker = KEYS[1], ARGV[1]
-- include: now
local leases = root .. 'leases'
if not redis.call('ZSCORE', leases, worker) then return { 'closed' } end
local row = redis.call('HGET', root .. 'workers', worker)
if not row then return { 'closed' } end
redis.call('ZADD', leases, now_ms + cmsgpack.unpack(row)[4], worker)
return { 'open', redis.call('HGETALL', root .. 'r:' .. worker) }
