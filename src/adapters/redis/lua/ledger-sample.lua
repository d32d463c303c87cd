#!lua flags=no-writes
-- Figures of one moment.
-- keys: root
-- args: top
-- bound: four counts for each queue, `top` names
-- returns: endings and their counts, how many are dead, how many workers are within their lease, for each queue how many
--   wait and run, the names that fail most with their counts
local root, top = KEYS[1], tonumber(ARGV[1])
-- include: now
local queues = {}
local running = redis.call('HGETALL', root .. 'running')
for place = 1, #running, 2 do
  local queue, waiting = running[place], 0
  for _, set in ipairs({ 'ready:', 'later:', 'ready-suspects:', 'later-suspects:' }) do
    waiting = waiting + redis.call('ZCARD', root .. set .. queue)
  end
  waiting = waiting + redis.call('ZCARD', root .. 'aside-queue:' .. queue)
  -- Below zero if an older process has counted.
  queues[#queues + 1] = { queue, waiting, math.max(0, tonumber(running[place + 1])) }
end
return {
  redis.call('HGETALL', root .. 'ended'),
  redis.call('ZCARD', root .. 'dead'),
  redis.call('ZCOUNT', root .. 'leases', string.format('%.0f', now_ms), '+inf'),
  queues,
  top > 0 and redis.call('ZREVRANGE', root .. 'failing', 0, top - 1, 'WITHSCORES') or {},
}
