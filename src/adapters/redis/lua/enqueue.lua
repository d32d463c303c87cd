#!lua
-- Pushes elements to the lists of one queue, in order. Without allow-oom: a full server refuses before anything is
-- written, and only this step.
-- keys: first, second, third, last
-- args: count_first, count_second, count_third, count_last, elements...
-- bound: 500 elements, 4 MiB
-- returns: for each list what went wrong, or an empty text
local counts = { tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]) }
local lists = { KEYS[1], KEYS[2], KEYS[3], KEYS[4] }
local reply, at = {}, 5

for place, list in ipairs(lists) do
  reply[place] = ''
  local last = at + counts[place] - 1
  while at <= last do
    -- This many at once fit on Lua's stack with a margin.
    local upto = math.min(last, at + 999)
    local pushed = redis.pcall('LPUSH', list, unpack(ARGV, at, upto))
    if type(pushed) == 'table' then reply[place] = pushed.err end
    at = upto + 1
  end
end
return reply
