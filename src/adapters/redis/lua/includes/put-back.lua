-- Puts elements held by a consumer back at the heads of their lists, up to `most` of them. The last one taken goes
-- first, so that the first one taken is the next to be taken again. An element whose list is now a key of another type
-- stays held, so that it is not lost.
local function put_back(held, tags, lists, most)
  table.sort(tags)
  local returned = 0
  for index = #tags, math.max(1, #tags - most + 1), -1 do
    local value = redis.call('HGET', held, tags[index])
    if value then
      local list = lists[tonumber(string.match(tags[index], '^%d+%.%d+%.(%d)%.'))]
      local pushed = redis.pcall('RPUSH', list, value)
      if type(pushed) == 'number' then
        redis.call('HDEL', held, tags[index])
        returned = returned + 1
      end
    end
  end
  return returned
end
