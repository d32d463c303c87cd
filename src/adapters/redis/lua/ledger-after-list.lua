#!lua flags=no-writes
-- Follow-ups of terminal steps that were not carried out in time, or are due again; the longest due first. No more than
-- fits into memory, but always one.
-- keys: root
-- args: older_than_ms, limit, most_bytes
-- bound: limit entries, most_bytes
-- returns: for each entry its key, how often it was refused, and its bytes; none where a key has none
local root, older_than_ms, limit, most_bytes = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
-- include: now
local keys = redis.call('ZRANGEBYSCORE', root .. 'after', '-inf', now_ms - older_than_ms, 'LIMIT', 0, limit)
local reply, bytes = {}, 0
for place, key in ipairs(keys) do
  bytes = bytes + redis.call('HSTRLEN', root .. 'after-entries', key)
  if place > 1 and bytes > most_bytes then break end
  reply[#reply + 1] = key
  reply[#reply + 1] = redis.call('HGET', root .. 'after-attempts', key) or '0'
  reply[#reply + 1] = redis.call('HGET', root .. 'after-entries', key) or ''
end
return reply
