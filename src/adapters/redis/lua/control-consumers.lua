#!lua flags=allow-oom
-- The workers that reported within their lease; the others are dropped.
-- keys: root
-- args: none
-- bound: 500 that are forgotten; the rows of all workers that live are read
-- returns: name and row of each, in turn; the names of those that are to end
local root = KEYS[1]
-- include: now
local consumers, rows, draining = root .. 'consumers', root .. 'consumer', root .. 'draining'
for _, worker in ipairs(redis.call('ZRANGEBYSCORE', consumers, '-inf', '(' .. now_ms, 'LIMIT', 0, 500)) do
  redis.call('ZREM', consumers, worker)
  redis.call('HDEL', rows, worker)
  redis.call('SREM', draining, worker)
end
return { redis.call('HGETALL', rows), redis.call('SMEMBERS', draining) }
