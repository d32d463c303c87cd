#!lua flags=no-writes
-- Tasks that are due and were set aside, because a worker could not run them: in that order, after the one with this
-- time and id. If that one is gone, those of its millisecond are returned again.
-- keys: root
-- args: limit, most_bytes, after_score, after_id
-- bound: `limit` tasks, most_bytes, or one task
-- returns: time and id of the last one it has looked at, or nothing at the end; for each its id, its record, its body if that
--   has a separate key, milliseconds since then, the worker that set it aside, a mark that a copy changes
local root, limit, most_bytes, after_score, after_id = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
-- include: now
-- include: ledger-record
local found, bytes = {}, 0
local from = 0
if after_id ~= '' then
  local rank = redis.call('ZRANK', root .. 'aside', after_id)
  from = rank and rank + 1 or redis.call('ZCOUNT', root .. 'aside', '-inf', '(' .. after_score)
end
local aside = redis.call('ZRANGE', root .. 'aside', from, from + limit - 1, 'WITHSCORES')
for place = 1, #aside, 2 do
  local id = aside[place]
  local raw = redis.call('GET', root .. 't:' .. id)
  local by = redis.call('HGET', root .. 'aside-by', id) or ''
  bytes = bytes + #(raw or '') + redis.call('STRLEN', root .. 'b:' .. id)
  if #found > 0 and bytes > most_bytes then return { { aside[place - 1], aside[place - 2] }, found } end
  local body = redis.call('GET', root .. 'b:' .. id)
  if raw and cmsgpack.unpack(raw)[DUE] <= now_ms then
    found[#found + 1] = { id, raw, body, math.max(0, now_ms - aside[place + 1]), by, redis.sha1hex(raw) }
  end
end
local last = #aside == 2 * limit and { aside[#aside], aside[#aside - 1] } or false
return { last, found }
