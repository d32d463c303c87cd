#!lua flags=allow-oom
-- Makes reservations under a key, in the order of the runs; a run keeps the one it has. The limit is checked against the
-- reservations there are, never against a counter.
-- keys: state, places, wanted
-- args: limit, holders
-- bound: the holders given, up to 500
-- returns: for each run 1 in | 0 not, and then how many tasks wait
local state, places, wanted = KEYS[1], KEYS[2], KEYS[3]
local limit, holders = tonumber(ARGV[1]), cmsgpack.unpack(ARGV[2])
-- include: now-us
local held, answers, refused = redis.call('ZCARD', places), {}, 0
for place, holder in ipairs(holders) do
  local task, member = holder[1], holder[1] .. '\n' .. holder[2]
  if redis.call('ZSCORE', places, member) then
    answers[place] = 1
  elseif held < limit then
    redis.call('ZADD', places, digits(now_us), member)
    redis.call('ZREM', wanted, task)
    held, answers[place] = held + 1, 1
  else
    refused, answers[place] = refused + 1, 0
  end
end
redis.call('HSET', state, 'concurrency', limit)
if refused > 0 then redis.call('HINCRBY', state, 'rejected', refused) end
if redis.call('PTTL', state) < 86400000 then redis.call('PEXPIRE', state, 86400000) end
answers[#answers + 1] = redis.call('ZCARD', wanted)
return answers
