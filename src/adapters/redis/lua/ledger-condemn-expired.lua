#!lua flags=allow-oom
-- Closes incarnations whose deadline passed. It is unknown how they ended: `host_lost` if no worker of the host has a lease,
-- `lease_lost` if another one has.
-- keys: root
-- args: lease_lost, host_lost
-- bound: 500 incarnations; if there are any, the rows of all open incarnations are read
-- returns: the server's milliseconds, the incarnations closed, how each ended
local root, lease_lost, host_lost = KEYS[1], ARGV[1], ARGV[2]
-- include: now
-- include: ledger-close
local MOST = 500
local leases, overdue = root .. 'leases', '(' .. string.format('%.0f', now_ms)

local function host_of(worker)
  local row = redis.call('HGET', root .. 'workers', worker)
  return row and cmsgpack.unpack(row)[2]
end

local expired = redis.call('ZRANGEBYSCORE', leases, '-inf', overdue, 'LIMIT', 0, MOST)
local living = {}
if #expired > 0 then
  for _, worker in ipairs(redis.call('ZRANGEBYSCORE', leases, string.format('%.0f', now_ms), '+inf')) do
    living[host_of(worker) or ''] = true
  end
end
return close(expired, function(worker)
  return living[host_of(worker) or ''] and lease_lost or host_lost
end)
