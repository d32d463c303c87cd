#!lua
-- Takes from a rate, as gcra.ts does: a grant moves the time on, a refusal moves nothing. Every write sets the key's
-- expiry again, so that none is left without one.
-- keys: state
-- args: count, interval_us, burst, limit, per_ms
-- bound: one key
-- returns: how many were granted, microseconds until one more is, the state afterwards
local state = KEYS[1]
local count, interval, burst = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local limit, per_ms = ARGV[4], ARGV[5]
-- include: now-us
local full = now_us + burst * interval
local tat = tonumber(redis.call('HGET', state, 'tat') or 0)
if tat > full + 1000000 then tat = full end
local base = math.max(tat, now_us)
local granted = math.min(count, math.max(0, math.floor((full - base) / interval)))
if granted > 0 then tat = base + granted * interval end
redis.call('HSET', state, 'tat', digits(tat), 'interval', digits(interval), 'burst', digits(burst), 'limit', limit, 'per', per_ms)
if granted < count then redis.call('HINCRBY', state, 'rejected', count - granted) end
redis.call('PEXPIRE', state, digits(math.ceil(math.max(0, tat - now_us) / 1000) + 86400000))
local wait = 0
if granted < count then wait = math.max(tat, now_us) + interval - full end
return { granted, digits(wait), digits(tat) }
