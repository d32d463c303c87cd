#!lua flags=allow-oom
-- Strikes off what was carried out.
-- keys: root
-- args: entries...
-- bound: the entries given: those of one list
-- returns: 1
local root = KEYS[1]
-- This many at once fit on Lua's stack with a margin.
for from = 1, #ARGV, 1000 do
  local upto = math.min(#ARGV, from + 999)
  redis.call('ZREM', root .. 'after', unpack(ARGV, from, upto))
  redis.call('HDEL', root .. 'after-entries', unpack(ARGV, from, upto))
  redis.call('HDEL', root .. 'after-attempts', unpack(ARGV, from, upto))
end
return 1
