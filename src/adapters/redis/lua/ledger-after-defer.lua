#!lua flags=allow-oom
-- Entries that could not be carried out are due again later. Entries struck off stay away.
-- keys: root
-- args: entries...
-- bound: the entries given: those of one list
-- returns: 1
local root = KEYS[1]
-- include: now
-- An entry has three arguments: its key, the delay in milliseconds, and 1 where it was refused.
for at = 1, #ARGV, 3 do
  local key = ARGV[at]
  if redis.call('HEXISTS', root .. 'after-entries', key) == 1 then
    redis.call('ZADD', root .. 'after', 'XX', now_ms + tonumber(ARGV[at + 1]), key)
    if ARGV[at + 2] == '1' then redis.call('HINCRBY', root .. 'after-attempts', key, 1) end
  end
end
return 1
