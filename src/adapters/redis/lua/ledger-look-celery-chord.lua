#!lua flags=allow-oom
-- The same for a chord that is counted where Celery's workers count theirs: see ledger-look-chord. What only they have
-- touched expires as they set it.
-- keys: chord, parts, correction, total
-- args: keep_ms, abandon_after_ms
-- bound: the parts of one chord
-- returns: nothing, for one that is gone or complete | 1 open, or 2 dropped, with parts, size (-1: unknown) and failed parts
local chord, parts, correction, total = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local keep_ms, abandon_after_ms = tonumber(ARGV[1]), tonumber(ARGV[2])
if redis.call('HEXISTS', chord, '=') == 1 then return {} end
local there, failed = 0, 0
for _, value in ipairs(redis.call('HVALS', chord)) do
  if value == '-' then failed = failed + 1 end
end
for _, member in ipairs(redis.call('ZRANGE', parts, 0, -1)) do
  local state = string.match(member, '^%[%d+,%s*"[^"]*",%s*"([A-Z]+)"')
  if state == 'FAILURE' or state == 'REVOKED' then failed = failed + 1 else there = there + 1 end
end
local size = tonumber(redis.call('GET', total) or '')
if not size and there + failed == 0 then return {} end
size = size and size + tonumber(redis.call('GET', correction) or '0') or -1
local left = redis.call('PTTL', chord)
if not abandon_after_ms or left < 0 or keep_ms - left < abandon_after_ms then return { 1, there, size, failed } end
redis.call('DEL', chord, parts, correction, total)
return { 2, there, size, failed }
