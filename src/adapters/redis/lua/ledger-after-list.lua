#!lua flags=no-writes
-- What must follow a terminal step and was not carried out in time, oldest first.
-- keys: root
-- args: older_than_ms, limit
-- returns: for each entry its key and its bytes
local root, older_than_ms, limit = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
-- include: now
local keys = redis.call('ZRANGEBYSCORE', root .. 'after', '-inf', now_ms - older_than_ms, 'LIMIT', 0, limit)
local reply = {}
for place, entry in ipairs(#keys > 0 and redis.call('HMGET', root .. 'after-entries', unpack(keys)) or {}) do
  if entry then
    reply[#reply + 1] = keys[place]
    reply[#reply + 1] = entry
  end
end
return reply
