#!lua flags=allow-oom
-- Counts a part of a chord: once, however often it is repeated. A result replaces a failure, never the other way round.
-- A chord expires a day after it was completed; an incomplete one, keep_ms after its last part. The field size is the
-- number of parts, empty if unknown. Any other field is the index of a part; its value is + and the result of a signed
-- task, ~ and that of any other, or - for a part that ended other than done.
-- keys: chord
-- args: index, size, value, keep_ms
-- bound: one part; with the last one all parts of its chord
-- returns: 1 open | 2 this part has failed | 3 and the results in their order, and 1 if all are of signed tasks
local chord, index, size, value, keep_ms = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local KEEP_COMPLETE_MS = 86400000
local found = redis.call('HGET', chord, index)
if not found or (found == '-' and value ~= '-') then
  redis.call('HSET', chord, index, value, 'size', ARGV[2])
  redis.call('PEXPIRE', chord, keep_ms)
  found = value
end
if found == '-' then return { 2 } end
if not size or redis.call('HLEN', chord) - 1 < size then return { 1 } end
local places, results, signed = {}, {}, 1
local fields = redis.call('HGETALL', chord)
for place = 1, #fields, 2 do
  local part = fields[place + 1]
  if fields[place] ~= 'size' and part ~= '-' then
    places[#places + 1] = { tonumber(fields[place]), string.sub(part, 2) }
    if string.sub(part, 1, 1) ~= '+' then signed = 0 end
  end
end
if #places < size then return { 1 } end
table.sort(places, function(one, other) return one[1] < other[1] end)
for place, part in ipairs(places) do results[place] = part[2] end
redis.call('PEXPIRE', chord, KEEP_COMPLETE_MS, 'LT')
return { 3, results, signed }
