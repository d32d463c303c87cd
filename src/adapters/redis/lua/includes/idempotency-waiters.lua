-- The tasks that found this key held.
local function waiters_of(record)
  local waiters = {}
  for _, field in ipairs(redis.call('HKEYS', record)) do
    if string.sub(field, 1, 2) == 'w:' then waiters[#waiters + 1] = string.sub(field, 3) end
  end
  return waiters
end
