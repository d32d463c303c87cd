#!lua flags=no-writes
-- Waiting tasks, and dead ones, with everything another ledger needs of them.
-- keys: root
-- args: limit, most_bytes
-- bound: limit records, most_bytes, or one record
-- returns: for each its id, its record, its body if that has a separate key, and milliseconds until it is due
local root, limit, most_bytes = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
-- include: now
-- include: ledger-record
local ids = {}
local function add(set, from)
  for _, member in ipairs(redis.call('ZRANGE', root .. set, 0, limit - #ids - 1)) do ids[#ids + 1] = string.sub(member, from) end
end
for _, queue in ipairs(redis.call('HKEYS', root .. 'running')) do
  for _, set in ipairs({ 'ready:', 'later:', 'ready-suspects:', 'later-suspects:' }) do
    if #ids < limit then add(set .. queue, 12) end
  end
end
if #ids < limit then add('aside', 1) end
if #ids < limit then add('dead', 1) end
local found, bytes = {}, 0
for _, id in ipairs(ids) do
  local raw = redis.call('GET', root .. 't:' .. id)
  bytes = bytes + #(raw or '') + redis.call('STRLEN', root .. 'b:' .. id)
  if #found > 0 and bytes > most_bytes then break end
  if raw then
    local due_in = math.max(0, cmsgpack.unpack(raw)[DUE] - now_ms)
    found[#found + 1] = { id, raw, redis.call('GET', root .. 'b:' .. id), due_in }
  end
end
return found
