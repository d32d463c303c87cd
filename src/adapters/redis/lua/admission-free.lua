#!lua flags=allow-oom
-- Ends reservations, and returns the tasks that waited for them: as many as were ended, the longest waiting first.
-- keys: places, wanted
-- args: holders
-- bound: the holders given, up to 500
-- returns: ids of tasks
local places, wanted, holders = KEYS[1], KEYS[2], cmsgpack.unpack(ARGV[1])
local gone, woken = 0, {}
for _, holder in ipairs(holders) do
  gone = gone + redis.call('ZREM', places, holder[1] .. '\n' .. holder[2])
end
if gone > 0 then
  woken = redis.call('ZRANGE', wanted, 0, gone - 1)
  if #woken > 0 then redis.call('ZREM', wanted, unpack(woken)) end
end
return woken
