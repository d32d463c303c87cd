#!lua flags=no-writes
-- Every objective with what was counted for it by minutes and hours.
-- keys: root
-- args: none
-- bound: four counts for each of some 500 minutes and hours of each objective
-- returns: the server's milliseconds, for each objective its name, what it promises, and its counts in pairs
local root = KEYS[1]
-- include: now
local found, all = {}, redis.call('HGETALL', root .. 'objectives')
for place = 1, #all, 2 do
  found[#found + 1] = { all[place], all[place + 1], redis.call('HGETALL', root .. 'slo:' .. all[place]) }
end
return { now_ms, found }
