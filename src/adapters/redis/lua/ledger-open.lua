#!lua flags=allow-oom
-- Opens an incarnation of a worker process, with its lease. A repeat after a lost reply finds it open; one that was
-- closed stays closed.
-- keys: root
-- args: worker, process, host, pid, lease_ms
-- bound: one incarnation
-- returns: 1
local root = KEYS[1]
local worker, process, host, pid, lease_ms = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
-- include: now
local leases = root .. 'leases'
if redis.call('ZSCORE', leases, worker) or redis.call('ZSCORE', root .. 'closed', worker) then return 1 end
redis.call('HSET', root .. 'workers', worker, cmsgpack.pack({ process, host, pid, lease_ms, now_ms }))
redis.call('ZADD', leases, now_ms + lease_ms, worker)
return 1
