#!lua flags=allow-oom
-- Keys held by tasks that were not reviewed for a while, the longest ago first; they count as reviewed now.
-- keys: root
-- args: idle_ms, limit
-- bound: `limit` keys
-- returns: for each key, task, epoch, held_ms, run
local root, idle_ms, limit = KEYS[1], tonumber(ARGV[1]), ARGV[2]
-- include: now
local reviewed = {}
for _, key in ipairs(redis.call('ZRANGEBYSCORE', root .. 'held', '-inf', now_ms - idle_ms, 'LIMIT', 0, limit)) do
  local found = redis.call('HMGET', root .. 'k:' .. key, 'task', 'epoch', 'held_at', 'run')
  redis.call('ZADD', root .. 'held', now_ms, key)
  reviewed[#reviewed + 1] = { key, found[1], found[2], now_ms - found[3], found[4] or '' }
end
return reviewed
