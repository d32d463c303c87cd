#!lua
-- Pushes an answer for one who waits. Whoever stops waiting removes the binding and the list: an answer that comes later
-- would make the list again, and nobody would ever remove it. It ends by itself where the one who waits was killed.
-- keys: bindings, list
-- args: member, element, ttl_ms
-- returns: 1 pushed | 0 nobody waits
local bindings, list = KEYS[1], KEYS[2]
local member, element, ttl_ms = ARGV[1], ARGV[2], ARGV[3]
if redis.call('SISMEMBER', bindings, member) == 0 then
  return 0
end
redis.call('LPUSH', list, element)
redis.call('PEXPIRE', list, ttl_ms)
return 1
