#!lua flags=allow-oom
-- Returns the progress of a chord; drops an incomplete one that was untouched for this long (empty: none).
-- keys: chord
-- args: keep_ms, abandon_after_ms
-- bound: the parts of one chord
-- returns: nothing, for one that is gone or complete | 1 open, or 2 dropped, with parts, size (-1: unknown) and failed parts
local chord, keep_ms, abandon_after_ms = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local fields = redis.call('HGETALL', chord)
if #fields == 0 then return {} end
local parts, failed, size = 0, 0, -1
for place = 1, #fields, 2 do
  if fields[place] == 'size' then
    size = tonumber(fields[place + 1]) or -1
  elseif fields[place + 1] == '-' then
    failed = failed + 1
  else
    parts = parts + 1
  end
end
if size >= 0 and parts >= size then return {} end
if not abandon_after_ms or keep_ms - redis.call('PTTL', chord) < abandon_after_ms then return { 1, parts, size, failed } end
redis.call('DEL', chord)
return { 2, parts, size, failed }
