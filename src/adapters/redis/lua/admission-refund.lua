#!lua flags=allow-oom
-- Gives back what was taken and not used, if nothing was taken since: the state is still what the take left.
-- keys: state
-- args: amount_us, mark
-- bound: one key
-- returns: 1 given back | 0 not
local state, amount, mark = KEYS[1], tonumber(ARGV[1]), ARGV[2]
if redis.call('HGET', state, 'tat') ~= mark then return 0 end
redis.call('HSET', state, 'tat', string.format('%.0f', tonumber(mark) - amount))
return 1
