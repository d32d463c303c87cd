#!lua flags=allow-oom
-- Opens an incarnation of a worker process, with its lease, and notes what the tasks of its handlers promise. A repeat after a lost reply finds it open; one that was
-- closed stays closed.
-- keys: root
-- args: worker, process, host, pid, lease_ms, objectives
-- bound: one incarnation, and the tasks of its handlers
-- returns: 1
local root = KEYS[1]
local worker, process, host, pid, lease_ms = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
-- include: now
local leases = root .. 'leases'
if redis.call('ZSCORE', leases, worker) or redis.call('ZSCORE', root .. 'closed', worker) then return 1 end
local objectives = cmsgpack.unpack(ARGV[6])
local without, said = objectives[1], objectives[2]
for _, name in ipairs(without) do
  -- The counts of an objective that is no more: the totals have them too.
  if redis.call('HDEL', root .. 'objectives', name) == 1 then redis.call('UNLINK', root .. 'slo:' .. name) end
end
for place = 1, #said, 2 do redis.call('HSET', root .. 'objectives', said[place], said[place + 1]) end
redis.call('HSET', root .. 'workers', worker, cmsgpack.pack({ process, host, pid, lease_ms, now_ms }))
redis.call('ZADD', leases, now_ms + lease_ms, worker)
return 1
