#!lua
-- Pushes an answer for a waiting caller. A caller that stops waiting removes the binding and the list: a later answer
-- would create the list again, and no process would remove it. If the caller was killed, the list expires.
-- keys: bindings, list
-- args: member, element, ttl_ms
-- bound: one element
-- returns: 1 pushed | 0 no caller waits
local bindings, list = KEYS[1], KEYS[2]
local member, element, ttl_ms = ARGV[1], ARGV[2], ARGV[3]
if redis.call('SISMEMBER', bindings, member) == 0 then
  return 0
end
redis.call('LPUSH', list, element)
redis.call('PEXPIRE', list, ttl_ms)
return 1
